//! Where the user's data lies.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where data lies that should outlive a restart: `$XDG_STATE_HOME/lockspan`, else
/// `~/.local/state/lockspan`. `None`: neither variable names a directory.
pub(crate) fn dir(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The rules of XDG ignore a directory that is not absolute.
    let env = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = env("XDG_STATE_HOME");
    let home = || env("HOME").map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("lockspan"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<PathBuf> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        dir(|name| value(name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_state_directory_is_before_the_home() {
        let state = ("XDG_STATE_HOME", "/state");
        let home = ("HOME", "/home/a");
        assert_eq!(found(&[state, home]), Some("/state/lockspan".into()));
        assert_eq!(found(&[home]), Some("/home/a/.local/state/lockspan".into()));
        let relative = ("XDG_STATE_HOME", "state");
        assert_eq!(found(&[relative, home]), Some("/home/a/.local/state/lockspan".into()));
        assert_eq!(found(&[]), None);
    }
}
