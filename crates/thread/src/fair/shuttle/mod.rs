//! Shuttle's tests of the fair lock.

mod bounds;
mod fuzz;

use crate::shuttle::in_many_schedules;
