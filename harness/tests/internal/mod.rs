//! Tests of the library's internals, in labs and against recordings: they are part of its unit tests, because the tested items are private.

mod apiserver;
mod counting;
mod differential;
mod forgotten_connections;
mod promise;
mod together;
