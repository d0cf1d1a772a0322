//! Keeps the shared library that contains this code in memory.
//!
//! The kernel reads the description of the last section that a thread has armed when it next takes
//! that thread off its processor, which may be long after the section; if the description is gone,
//! it ends the process. A handler of a signal is not to be unloaded either.

use core::ffi::{CStr, c_void};

/// The shared library, or program, that has the address; none if the loader knows of none, as in a
/// program without one.
fn holder(of: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: zeros are a value of the structure.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills in the structure, if it knows the address.
    let found = unsafe { libc::dladdr(of, &mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}

/// After this `dlclose` does not unload the code of this crate. Twice does no harm.
pub(super) fn stay() -> Result<(), String> {
    let here: fn() -> Result<(), String> = stay;
    let Some(library) = holder(here as *const c_void) else { return Ok(()) };
    // SAFETY: a query; 0 if the kernel did not say.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let program = holder(std::ptr::without_provenance(headers));
    if program.is_some_and(|program| program.dli_fbase == library.dli_fbase) {
        return Ok(());
    }
    let how = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // The handle is kept forever: where the flag means nothing, that is as good.
    // SAFETY: the loader's own name of a library that is loaded: nothing is run.
    if unsafe { libc::dlopen(library.dli_fname, how) }.is_null() {
        // SAFETY: a string of the loader's, for as long as the library is there.
        let name = unsafe { CStr::from_ptr(library.dli_fname) }.to_string_lossy();
        return Err(format!("the loader does not promise to keep {name} in memory"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_stays_by_itself() {
        assert_eq!(stay(), Ok(()));
        assert_eq!(stay(), Ok(()), "a second time");
        assert!(holder(std::ptr::null()).is_none());
    }
}
