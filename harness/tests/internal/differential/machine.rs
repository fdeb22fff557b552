//! The test on another kernel: the test program is PID 1 of a virtual machine.

use std::path::Path;
use std::sync::Arc;

use super::Outcome;
use crate::lab::Backend;
use crate::vm::{self, Size, Vm};
use crate::worker::{Kind, Slot, WorkerError, WorkerLocation, serve};

/// The variable that names a kernel, as `--kernel` does.
pub(super) const KERNEL: &str = "SVCLAB_KERNEL";

const SIZE: Size = Size { memory: 1024, processors: 1 };

/// A seed, the number of a case, and its number of flows.
type Order = (u64, usize, usize);

/// Runs before the tests: in a virtual machine, orders are served instead.
#[ctor::ctor(unsafe)]
fn serve_in_a_machine() {
    if vm::is_guest() {
        vm::enter();
        // If the other side is gone, the machine has nothing more to do.
        let _ = serve(|(seed, number, flows): Order, _, _| Ok(Outcome::of(seed, number, flows)));
        vm::leave();
    }
}

/// A virtual machine with the kernel.
pub(super) fn started(kernel: &str) -> WorkerLocation {
    let vm = Vm::prepare(Path::new(kernel), None, SIZE, Path::new("/proc/self/exe"));
    let vm = vm.unwrap_or_else(|error| panic!("{error}\n{}", error.help()));
    println!("kernel {}", vm.release());
    WorkerLocation::boot(vm, Kind::Run, Backend::System).unwrap_or_else(|trouble| panic!("{}", trouble.message))
}

/// The outcomes of cases in a virtual machine.
pub(super) fn outcomes(
    location: &WorkerLocation,
    orders: impl Iterator<Item = Order>,
) -> impl Iterator<Item = Outcome> {
    let mut slot = Slot::new(location, Kind::Run);
    orders.map(move |order| {
        let outcome = slot.ask(&order, &Arc::default());
        outcome.unwrap_or_else(|error: WorkerError| panic!("{}", error.into_trouble().message))
    })
}
