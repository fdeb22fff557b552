//! An independent client, kube-rs, against the API server.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use hyper::Request;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event as GroupEvent;
use kube::api::{ListParams, Patch, PatchParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::discovery::Discovery;
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, Settings};

/// A server on a loopback port, and its address.
fn start(objects: Vec<Value>) -> (ApiServer, SocketAddr) {
    start_with(Settings::default(), objects)
}

/// A server that keeps only this number of changes.
fn start_with_history(history: usize, objects: Vec<Value>) -> (ApiServer, SocketAddr) {
    start_with(Settings { history, ..Settings::default() }, objects)
}

fn start_with(settings: Settings, objects: Vec<Value>) -> (ApiServer, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (ApiServer::start(settings, objects, vec![listener]).unwrap(), address)
}

fn client(address: SocketAddr) -> Client {
    let config = Config::new(format!("http://{address}").parse().unwrap());
    Client::try_from(config).unwrap()
}

fn service(name: &str, ip: u8) -> Value {
    let spec = json!({"clusterIP": format!("10.96.0.{ip}"), "ports": [{"port": 80}]});
    json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
}

fn services(ips: impl IntoIterator<Item = u8>) -> Vec<Value> {
    ips.into_iter().map(|ip| service(&format!("web-{ip}"), ip)).collect()
}

fn names(objects: &[impl ResourceExt]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("no answer of the API: {other}"),
    }
}

/// How long an event may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// The next item of a stream, within ten seconds.
async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    let next = tokio::time::timeout(PATIENCE, stream.next()).await;
    next.expect("an event within ten seconds").expect("an open stream")
}

/// An event of a watcher, in short: `apply web-1`.
async fn seen(stream: &mut (impl Stream<Item = watcher::Result<watcher::Event<Service>>> + Unpin)) -> String {
    loop {
        // The watcher continues after an error, as in every controller.
        let Ok(event) = next(stream).await else { continue };
        return match event {
            watcher::Event::Apply(service) => format!("apply {}", service.name_any()),
            watcher::Event::Delete(service) => format!("delete {}", service.name_any()),
            watcher::Event::Init => "init".to_owned(),
            watcher::Event::InitApply(service) => format!("first {}", service.name_any()),
            watcher::Event::InitDone => "done".to_owned(),
        };
    }
}

type Watcher = Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<Service>>>>>;

/// A watcher of services that has seen the first state.
async fn watcher_after(address: SocketAddr, config: watcher::Config, first: &[&str]) -> Watcher {
    let mut stream: Watcher = Box::pin(watcher(Api::<Service>::all(client(address)), config));
    expect(&mut stream, first).await;
    stream
}

async fn expect(stream: &mut Watcher, events: &[&str]) {
    for event in events {
        assert_eq!(seen(stream).await, *event);
    }
}

#[tokio::test]
async fn lists_and_gets_what_an_api_server_stores() {
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}});
    let (_server, address) = start([services([1, 2]), vec![node]].concat());
    let api: Api<Service> = Api::namespaced(client(address), "default");
    let list = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(names(&list.items), ["web-1", "web-2"]);
    let first = api.get("web-1").await.unwrap();
    assert_eq!(first, list.items[0]);
    assert_eq!(first.spec.as_ref().unwrap().cluster_ips, Some(vec!["10.96.0.1".to_owned()]));
    assert!(first.uid().is_some_and(|uid| uid.len() == 36) && first.creation_timestamp().is_some());
    assert_ne!(first.uid(), list.items[1].uid());
    assert_eq!(code(&api.get("web-9").await.unwrap_err()), 404);
    let elsewhere = Api::<Service>::namespaced(client(address), "kube-system").list(&ListParams::default()).await;
    assert!(elsewhere.unwrap().items.is_empty());
    assert_eq!(names(&Api::<Node>::all(client(address)).list(&ListParams::default()).await.unwrap().items), ["a"]);
}

#[tokio::test]
async fn a_client_discovers_what_is_served() {
    let (_server, address) = start(Vec::new());
    let client = client(address);
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut groups: Vec<&str> = discovery.groups().map(|group| group.name()).collect();
    groups.sort_unstable();
    assert_eq!(groups, ["", "discovery.k8s.io", "events.k8s.io", "networking.k8s.io"]);
    let slices = discovery.get("discovery.k8s.io").unwrap().recommended_kind("EndpointSlice").unwrap().0;
    assert_eq!((slices.version.as_str(), slices.plural.as_str()), ("v1", "endpointslices"));
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
}

#[rstest::rstest]
#[case::list_and_watch(watcher::Config::default())]
#[case::streaming_list(watcher::Config::default().streaming_lists())]
#[case::pages_of_one(watcher::Config::default().page_size(1))]
#[tokio::test]
async fn a_watcher_sees_changes(#[case] config: watcher::Config) {
    let (server, address) = start(services([1, 2]));
    let mut stream = watcher_after(address, config, &["init", "first web-1", "first web-2", "done"]).await;
    let mut objects = services([1, 3]);
    objects[0]["spec"]["clusterIP"] = "10.96.0.9".into();
    server.replace(objects).unwrap();
    expect(&mut stream, &["delete web-2", "apply web-1", "apply web-3"]).await;
}

#[tokio::test]
async fn a_watcher_resumes_where_its_connection_broke() {
    let (server, address) = start(services([1]));
    let line = Line::to(address);
    let mut stream = watcher_after(line.address, watcher::Config::default(), &["init", "first web-1", "done"]).await;
    server.replace(services([1, 2])).unwrap();
    expect(&mut stream, &["apply web-2"]).await;
    line.cut();
    server.replace(services([2, 3])).unwrap();
    expect(&mut stream, &["delete web-1", "apply web-3"]).await;
}

#[tokio::test]
async fn a_watcher_that_is_too_far_behind_lists_again() {
    let (server, address) = start_with_history(1, services([1]));
    let line = Line::to(address);
    let mut stream = watcher_after(line.address, watcher::Config::default(), &["init", "first web-1", "done"]).await;
    server.replace(services([1, 2])).unwrap();
    expect(&mut stream, &["apply web-2"]).await;
    line.cut();
    for ip in 3..6 {
        server.replace(services([1, ip])).unwrap();
    }
    expect(&mut stream, &["init", "first web-1", "first web-5", "done"]).await;
}

#[tokio::test]
async fn a_watch_of_a_forgotten_version_is_expired() {
    let (server, address) = start_with_history(1, services([1]));
    (2..5).for_each(|ip| _ = server.replace(services([ip])).unwrap());
    let api: Api<Service> = Api::all(client(address));
    let mut stream = pin!(api.watch(&WatchParams::default(), "1").await.unwrap());
    match next(&mut stream).await.unwrap() {
        WatchEvent::Error(status) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    assert!(stream.next().await.is_none(), "the watch goes on after its error");
}

#[tokio::test]
async fn a_watch_with_selectors_sees_objects_come_and_go() {
    let (server, address) = start(services([1, 2]));
    let api: Api<Service> = Api::all(client(address));
    let parameters = WatchParams::default().labels("app in (web-1, web-3),!hidden");
    let mut stream = pin!(api.watch(&parameters, "0").await.unwrap());
    let mut objects = services([1, 2]);
    let label = |objects: &mut [Value], value: &str| objects[1]["metadata"]["labels"]["app"] = value.into();
    label(&mut objects, "web-3");
    server.replace(objects.clone()).unwrap();
    label(&mut objects, "web-2");
    server.replace(objects).unwrap();
    let mut events = Vec::new();
    while events.len() < 3 {
        events.push(match next(&mut stream).await.unwrap() {
            WatchEvent::Added(service) => format!("added {}", service.name_any()),
            WatchEvent::Deleted(service) => format!("deleted {} {}", service.name_any(), service.labels()["app"]),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(events, ["added web-1", "added web-2", "deleted web-2 web-3"]);
    let by_name = ListParams::default().fields("metadata.name=web-2");
    assert_eq!(names(&api.list(&by_name).await.unwrap().items), ["web-2"]);
    assert_eq!(code(&api.list(&ListParams::default().fields("spec.color=red")).await.unwrap_err()), 400);
}

#[tokio::test]
async fn pages_show_one_version_until_it_is_forgotten() {
    let (server, address) = start_with_history(4, services([1, 2, 3, 4, 5]));
    let api: Api<Service> = Api::all(client(address));
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(
        (names(&first.items), first.metadata.remaining_item_count),
        (vec!["web-1".into(), "web-2".into()], Some(3))
    );
    server.replace(services([1, 2, 3, 6])).unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = api.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(names(&second.items), ["web-3", "web-4"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let exact =
        ListParams::default().at(first.metadata.resource_version.as_ref().unwrap()).matching(VersionMatch::Exact);
    assert_eq!(api.list(&exact).await.unwrap().items.len(), 5);
    server.replace(services([7, 8])).unwrap();
    let error = api.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap_err();
    assert_eq!(code(&error), 410);
    assert_eq!(code(&api.list(&exact).await.unwrap_err()), 410);
}

/// kube-rs waits and retries.
#[test]
fn a_version_that_is_still_to_come_is_a_timeout() {
    let (_server, address) = start(services([1]));
    let mut stream = TcpStream::connect(address).unwrap();
    let path = "/api/v1/services?resourceVersion=999999&resourceVersionMatch=NotOlderThan";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let response = io::read_to_string(stream).unwrap();
    assert!(response.starts_with("HTTP/1.1 504") && response.contains("ResourceVersionTooLarge"), "{response}");
}

#[tokio::test]
async fn invalid_objects_change_nothing() {
    let (server, address) = start(services([1]));
    let api: Api<Service> = Api::namespaced(client(address), "default");
    let mut bad = service("bad", 2);
    bad["spec"]["ports"][0]["nodePort"] = 80.into();
    let error = server.replace(vec![bad.clone()]).unwrap_err().to_string();
    assert!(error.contains("Service \"bad\" is invalid") && error.contains("spec.ports[0].nodePort"), "{error}");
    assert_eq!(names(&api.list(&ListParams::default()).await.unwrap().items), ["web-1"]);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let error = api.create(&dry, &serde_json::from_value(bad).unwrap()).await.unwrap_err();
    assert_eq!(code(&error), 422);
    let good: Service = serde_json::from_value(service("good", 3)).unwrap();
    assert_eq!(api.create(&dry, &good).await.unwrap().spec.unwrap().session_affinity.as_deref(), Some("None"));
    assert_eq!(code(&api.create(&PostParams::default(), &good).await.unwrap_err()), 405);
}

#[tokio::test]
async fn events_of_both_groups_are_the_same() {
    let (_server, address) = start(Vec::new());
    let sent: GroupEvent = serde_json::from_value(json!({
        "metadata": {"name": "started", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "note": "it runs", "reason": "Starting",
        "regarding": {"kind": "Node", "name": "a"}, "reportingController": "proxy",
    }))
    .unwrap();
    let api: Api<GroupEvent> = Api::namespaced(client(address), "default");
    api.create(&PostParams::default(), &sent).await.unwrap();
    assert_eq!(code(&api.create(&PostParams::default(), &sent).await.unwrap_err()), 409);
    let patch = Patch::Merge(json!({"note": "it still runs"}));
    api.patch("started", &PatchParams::default(), &patch).await.unwrap();
    // Neither is stored.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert_eq!(code(&api.create(&dry, &sent).await.unwrap_err()), 409);
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let patched = api.patch("started", &dry, &Patch::Merge(json!({"note": "it ended"}))).await.unwrap();
    assert_eq!(patched.note.as_deref(), Some("it ended"));
    let listed = Api::<Event>::all(client(address)).list(&ListParams::default().fields("involvedObject.name=a")).await;
    let events = listed.unwrap().items;
    let event = &events[0];
    assert_eq!((event.message.as_deref(), event.reason.as_deref()), (Some("it still runs"), Some("Starting")));
    assert_eq!(event.reporting_component.as_deref(), Some("proxy"));
}

#[tokio::test]
async fn slices_are_served_in_both_versions() {
    let slice = json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1beta1",
        "metadata": {"name": "web-1", "namespace": "default"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "topology": {"kubernetes.io/hostname": "a"}}], "ports": [],
    });
    let (_server, address) = start(vec![slice]);
    let stored = Api::<EndpointSlice>::namespaced(client(address), "default").get("web-1").await.unwrap();
    assert_eq!(stored.endpoints.unwrap_or_default()[0].node_name.as_deref(), Some("a"));
    let path = "/apis/discovery.k8s.io/v1beta1/endpointslices";
    let list: Value = client(address).request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(list["items"][0]["endpoints"][0]["topology"], json!({"kubernetes.io/hostname": "a"}));
}

#[tokio::test]
async fn a_client_that_takes_only_protobuf_is_rejected() {
    let (_server, address) = start(services([1]));
    let asked = |accept: &'static str| async move {
        let request = Request::get("/api/v1/services").header("accept", accept).body(Vec::new()).unwrap();
        client(address).request::<Value>(request).await
    };
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(code(&asked(protobuf).await.unwrap_err()), 406);
    let list = asked("application/vnd.kubernetes.protobuf,application/json").await.unwrap();
    assert_eq!(list["kind"], "ServiceList");
}

#[tokio::test]
async fn the_server_knows_how_far_its_clients_are() {
    let (server, address) = start(services([1]));
    let mut stream = watcher_after(address, watcher::Config::default(), &["init", "first web-1", "done"]).await;
    let newest = server.replace(services([1, 2])).unwrap();
    expect(&mut stream, &["apply web-2"]).await;
    // The watcher gets no more events, and the server reports that on its own.
    let newest_is_seen = async {
        loop {
            let so_far = server.clients(0).resources["services"];
            if so_far.resource_version == Some(newest) {
                return so_far;
            }
            tokio::task::yield_now().await;
        }
    };
    let so_far = tokio::time::timeout(PATIENCE, newest_is_seen).await.expect("the server says so within ten seconds");
    assert_eq!((so_far.lists, so_far.watches, so_far.open), (1, 1, 1));
}

/// A connection between client and server that can be cut.
struct Line {
    address: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let ends: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = Arc::clone(&ends);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near?, TcpStream::connect(server)?);
                kept.lock().unwrap().extend([near.try_clone()?, far.try_clone()?]);
                for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
                    thread::spawn(move || io::copy(&mut from, &mut to));
                }
            }
            io::Result::Ok(())
        });
        Self { address, ends }
    }

    fn cut(&self) {
        self.ends.lock().unwrap().drain(..).for_each(|end| _ = end.shutdown(Shutdown::Both));
    }
}
