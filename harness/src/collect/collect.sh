#!/bin/sh
# Collects the data for diagnosing a problem with Kubernetes Services on this node: rules with counters, addresses, routes,
# connections, kernel settings, kube-proxy's configuration and log, and Kubernetes objects if kubectl works.
#
#   sudo sh collect.sh [FILE.tar.gz]      (`-` is standard output)
#
# It changes nothing on the node except FILE and a temporary folder, which it removes. It reads no Secrets, and no ConfigMaps except
# kube-proxy's; tokens, passwords and keys in logs, configurations and objects are replaced by REDACTED. Names and addresses are kept:
# review FILE before you publish it, or replace them with `svclab dump anonymize FILE`.
#
# Each file starts with the command that created it and its exit code; missing commands and timeouts are also recorded.
# shellcheck disable=SC2016,SC2086 # inner shells expand variables; some variables are several words
set -u
umask 077
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin
export LC_ALL PATH

seconds=${SVCLAB_COLLECT_SECONDS:-30} # for each command
most_lines=20000                      # of connections
most_bytes=60000000                   # of each file

node=$(uname -n | tr -c 'A-Za-z0-9.\n-' '_')
archive=${1:-svclab-$node-$(date -u +%Y%m%dT%H%M%SZ).tar.gz}
if [ -d "$archive" ]; then
  echo "$archive is a folder: name a file" >&2
  exit 3
fi
folder=$(mktemp -d) || exit 3
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
out=$folder/$node
mkdir "$out" || exit 3

limit=
for form in "timeout -k 5 $seconds" "timeout $seconds" "timeout -t $seconds"; do
  if $form true 2>/dev/null; then
    limit=$form
    break
  fi
done

# The names of secrets: `token`, `DB_PASSWORD`, `clientSecret`, `etcd-s3-access-key`; and their values, in quotes or up to a separator.
secret='([Tt][Oo][Kk][Ee][Nn]|[Pp][Aa][Ss][Ss]([Ww][Oo][Rr][Dd]|[Ww][Dd]|[Pp][Hh][Rr][Aa][Ss][Ee])|[Pp][Ww][Dd]'
secret=$secret'|[Ss][Ee][Cc][Rr][Ee][Tt]|[Cc]redentials?|[Aa][Pp][Ii][_-]?[Kk][Ee][Yy]|[Aa][Cc][Cc][Ee][Ss][Ss][_-]?[Kk][Ee][Yy]'
secret=$secret'|[Kk]ey-data|certificate-data)([_-]?([Aa][Cc][Cc][Ee][Ss][Ss][_-]?)?([Kk][Ee][Yy]|[Ii][Dd]))?'
name='[A-Za-z0-9_.-]*'$secret
value='("[^"]*"|'"'[^']*'"'|[^][ "\\,;&{}]+)'

# Redacts secrets in logs, configurations and objects. What follows a secret's name at the start of a line is its value.
mask() {
  sed -E \
    -e "/name\"?: *\"?$name\"?,?\$/{n;s/(value\"?: *).*/\1REDACTED/;}" \
    -e '/-----BEGIN [A-Z ]*PRIVATE KEY-----/,/-----END [A-Z ]*PRIVATE KEY-----/s/.*/REDACTED/' \
    -e '/last-applied-configuration: \|/{N;d;}' \
    -e 's/eyJ[A-Za-z0-9_-]{4,}(\.[A-Za-z0-9_-]*)*/REDACTED/g' \
    -e 's/(gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA)[A-Za-z0-9_-]{10,}/REDACTED/g' \
    -e 's#(hooks\.[a-z.]+/)[^ "]+#\1REDACTED#g' \
    -e 's/([Bb]earer|[Aa]uthorization: *[A-Za-z]+) +[^ ",]+/\1 REDACTED/g' \
    -e 's#(://[^/:@ ]*:)[^/@ ]+@#\1REDACTED@#g' \
    -e 's/(^|[^A-Za-z0-9.])[a-z0-9]{6}\.[a-z0-9]{16}([^A-Za-z0-9.]|$)/\1REDACTED\2/g' \
    -e "s/(--$name( +|=))$value/\1REDACTED/g" \
    -e 's/([?&]sig=)[^ "&]+/\1REDACTED/g' \
    -e "s#^([ -]*\"?([A-Za-z0-9_.-]+/)?$name\"?: +)[^ {[|>].*#\1REDACTED#" \
    -e "s#(\"?([A-Za-z0-9_.-]+/)?$name\"?: +)$value#\1REDACTED#g" \
    -e "s#($name\\\\*\": *\\\\*\")[^\"\\\\]*#\1REDACTED#g" \
    -e "s/(^|[^A-Za-z0-9_.-])($name=)$value/\1\2REDACTED/g" \
    -e "s/(name\"?: *\"?$name\"?, *\"?value\"?: *)$value/\1REDACTED/g"
}

# Writes the output of a command to a file: run FILE FILTER COMMAND...
run() {
  file=$1 filter=$2
  shift 2
  : >"$folder/errors"
  ($limit "$@" </dev/null 2>"$folder/errors"; echo $? >"$folder/code") | $filter | head -c "$most_bytes" >"$folder/output"
  code=$(cat "$folder/code")
  {
    printf '%s' "# $*" | tr '\n' ' '
    echo
    case $code in
      124 | 137 | 143) printf '# exit code %s: stopped after %s s\n' "$code" "$seconds" ;;
      127) printf '# exit code 127: not found\n' ;;
      *) printf '# exit code %s\n' "$code" ;;
    esac
    head -n 20 "$folder/errors" | mask | sed 's/^/# stderr: /'
    cat "$folder/output"
  } >"$out/$file"
  [ "$code" = 0 ] || failed="$failed $file ($code)"
}
failed=

first_lines() { head -n "$most_lines"; }
has() { command -v "$1" >/dev/null 2>&1; }

# Reading would load the module if it is not loaded yet; in that case there is nothing to read.
is_loaded() {
  [ -r /proc/modules ] && [ -r "/lib/modules/$(uname -r)/modules.builtin" ] || return 0
  grep -q "^$1 " /proc/modules || grep -q "/$1\.ko" "/lib/modules/$(uname -r)/modules.builtin"
}

run about.txt cat sh -c 'uname -a; date -u; for program in iptables nft kube-proxy; do $program --version; done 2>&1; true'

for family in iptables ip6tables; do
  if has $family-nft-save || has $family-legacy-save; then
    run $family-nft.txt cat $family-nft-save -c
    run $family-legacy.txt cat $family-legacy-save -c
  else
    run $family.txt cat $family-save -c
  fi
done
if is_loaded nf_tables; then run nft.txt cat nft list ruleset; fi
if is_loaded ip_set; then run ipset.txt cat ipset save; fi

run ip-addr.txt cat ip addr show
run ip-link.txt cat ip -d link show
run ip-route.txt cat ip route show table all
run ip-6-route.txt cat ip -6 route show table all
run ip-rule.txt cat ip rule show
run ip-6-rule.txt cat ip -6 rule show
if has conntrack && is_loaded nf_conntrack_netlink; then
  run conntrack.txt first_lines conntrack -L
  run conntrack-6.txt first_lines conntrack -L -f ipv6
else
  run conntrack.txt first_lines cat /proc/net/nf_conntrack
fi

run sysctl.txt cat sh -c '
  cd /proc/sys || exit
  for name in rp_filter route_localnet forwarding accept_local src_valid_mark arp_ignore arp_announce send_redirects disable_ipv6; do
    grep -s "" /dev/null net/ipv4/conf/*/$name net/ipv6/conf/*/$name
  done
  grep -s "" /dev/null net/ipv4/ip_* net/ipv4/vs/* net/bridge/* net/netfilter/nf_conntrack_*
  true' 2>/dev/null
awk '
  /^#/ || !index($0, ":") || $0 !~ /^net\// { if (/^# (exit|stderr)/ || NR == 1) print; next }
  {
    name = substr($0, 1, index($0, ":") - 1)
    gsub(/\./, "@", name); gsub("/", ".", name); gsub("@", "/", name)
    print name " = " substr($0, index($0, ":") + 1)
  }' "$out/sysctl.txt" >"$folder/output" && mv "$folder/output" "$out/sysctl.txt"

# kube-proxy: its arguments, its configuration as its process sees it, its log.
number=0
for process in /proc/[0-9]*; do
  arguments=$({ tr '\0' '\n' <"$process/cmdline"; } 2>/dev/null) || continue
  case $arguments in
    *kube-proxy* | k3s* | */k3s* | rke2* | */rke2*) ;;
    *) continue ;;
  esac
  [ "${process#/proc/}" != $$ ] && [ "$number" -lt 8 ] || continue
  number=$((number + 1))
  run "process-$number.txt" mask sh -c "tr '\\0' ' ' <$process/cmdline"
  config=$(printf '%s\n' "$arguments" | sed -n -e 's/^--config=//p' -e '/^--config$/{n;p;}' | head -n 1)
  if [ -n "$config" ] && grep -q KubeProxyConfiguration "$process/root$config" 2>/dev/null; then
    run "kube-proxy-config-$number.txt" mask cat "$process/root$config"
  fi
done
number=0
for log in /var/log/pods/kube-system_kube-proxy*/kube-proxy/*.log /var/log/kube-proxy.log /var/log/kube-proxy/*.log; do
  [ -f "$log" ] && [ "$number" -lt 8 ] || continue
  number=$((number + 1))
  run "kube-proxy-log-$number.txt" mask tail -n 2000 "$log"
done
if has journalctl; then
  for unit in kube-proxy k3s k3s-agent rke2-server rke2-agent; do
    run "journal-$unit.txt" mask journalctl --no-pager --quiet -n 2000 -u "$unit"
    [ "$(grep -vc '^#' "$out/journal-$unit.txt")" -gt 0 ] || rm "$out/journal-$unit.txt"
  done
fi

kubectl=kubectl
if ! has kubectl && has k3s; then kubectl='k3s kubectl'; fi
if ! $limit $kubectl --request-timeout=10s get nodes -o name >/dev/null 2>&1 </dev/null; then
  for config in /etc/kubernetes/admin.conf /etc/rancher/k3s/k3s.yaml /etc/rancher/rke2/rke2.yaml /etc/kubernetes/kubelet.conf \
    /var/lib/kubelet/kubeconfig; do
    if [ -r "$config" ] && KUBECONFIG=$config $limit $kubectl --request-timeout=10s get nodes -o name >/dev/null 2>&1 </dev/null; then
      KUBECONFIG=$config
      export KUBECONFIG
      break
    fi
  done
fi
run kubectl-version.txt mask $kubectl --request-timeout=10s version
if [ "$code" = 0 ]; then
  for kind in nodes services endpoints endpointslices servicecidrs; do
    run "$kind.txt" mask $kubectl --request-timeout=20s get "$kind" -A -o yaml
  done
  # As a table, because the manifest of a pod contains the environment of its containers.
  run pods.txt mask $kubectl --request-timeout=20s get pods -A -o wide
  run kube-proxy-configmap.txt mask $kubectl --request-timeout=20s -n kube-system get configmap kube-proxy -o yaml
fi

if ! tar -C "$folder" -czf "$folder/archive" "$node" && ! tar -C "$folder" -cf "$folder/archive" "$node"; then
  trap - EXIT
  echo "tar failed: the files are in $out" >&2
  exit 3
fi
if [ "$archive" = - ]; then
  cat "$folder/archive" || exit 3
elif [ -e "$archive" ] && { [ ! -f "$archive" ] || [ -L "$archive" ]; }; then
  # A device, a pipe and the target of a link are written to, not replaced.
  cat "$folder/archive" >"$archive" || exit 3
  archive=-
elif ! mv -f "$folder/archive" "$archive"; then
  # On a full disk, the file would be a truncated archive.
  rm -f "$archive"
  exit 3
fi
[ "$(id -u)" = 0 ] || echo "not run as root: rules and connections may be missing" >&2
[ -z "$failed" ] || echo "commands that failed (exit code):$failed" >&2
[ "$archive" = - ] || echo "$archive"
