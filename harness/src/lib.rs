//! svclab: Kubernetes Service traffic on a real kernel.

pub mod lab;
pub mod observation;
pub mod scenario;
<<<<<<< Updated upstream
pub mod topology;
=======
pub mod wire;
>>>>>>> Stashed changes
