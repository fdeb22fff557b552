//! Tests of the library's internals, in labs and against recordings: they are part of its unit tests, since what they test is
//! not public.

mod apiserver;
mod counting;
mod differential;
mod forgotten_connections;
mod promise;
mod together;
