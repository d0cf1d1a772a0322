//! Who may do something on the page, and who may look at it.

use std::fmt::{self, Debug};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockspan_wire::Secret;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::config::Data;
use crate::error::StartError;
use crate::private;
use crate::users::{Ends, Place, Users, Verb};

/// What a login gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// End sessions, take back records. To see them every login is enough.
    pub(crate) act: bool,
}

/// The name and the password are not such, or do not give a right; what to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied(pub(crate) String);

/// Says who has which right.
#[derive(Debug)]
pub(crate) enum Operators {
    /// There are no users, but a data directory.
    Secret(SecretFile),
    /// There is neither, or no room in it.
    Nobody,
    /// The server's users: to look they need to inspect everything, to act to be admin of it.
    Users(Arc<Users>),
}

const NOBODY: &str = "login is not possible: the server has neither users nor a data directory \
                      with space for the operator's password. Restart it with one of them";

impl Operators {
    /// Those of a server. Without room in the data directory no secret is made: it would be there
    /// without a data file, which means that the data file is lost.
    pub(crate) fn of(
        users: Option<&Arc<Users>>,
        data: &Data,
        has_room: bool,
    ) -> Result<Self, StartError> {
        Ok(match (users, data) {
            (Some(users), _) => Self::Users(Arc::clone(users)),
            (None, Data::Dir(dir)) if !has_room && !dir.join(FILE).exists() => Self::Nobody,
            (None, Data::Dir(dir)) => Self::Secret(SecretFile::open(dir)?),
            (None, Data::None { .. }) => Self::Nobody,
        })
    }

    /// Which rights this password gives this user, at the other end of this connection.
    pub(crate) async fn check(
        &self,
        ends: Option<Ends>,
        user: &str,
        password: &Secret,
    ) -> Result<Rights, Denied> {
        match self {
            Self::Secret(file) => {
                let checked = file.check(user, password);
                // What others guess makes no difference to the operator: each waits alone.
                if checked.is_err() {
                    tokio::time::sleep(WRONG).await;
                }
                checked
            }
            Self::Nobody => Err(Denied(NOBODY.to_owned())),
            Self::Users(users) => {
                let from = ends.map_or(Place::Unix(None), |ends| Place::Ip(ends.peer.ip()));
                let place = users.place_of(from, || ends);
                let known = users.check(place, user, password).await;
                let known = known.map_err(|why| Denied(why.to_string()))?;
                if !known.may_everywhere(Verb::Inspect) {
                    let why = "the page needs the inspect right on everything, which this user \
                               does not have";
                    return Err(Denied(why.to_owned()));
                }
                Ok(Rights { act: known.may_everywhere(Verb::Admin) })
            }
        }
    }

    /// Whether nobody sees anything without a login.
    pub(crate) fn look_needs_login(&self) -> bool {
        matches!(self, Self::Users(_))
    }

    /// Tells whoever reads the log what one needs to log in on the page.
    pub(crate) fn log_how(&self) {
        if let Self::Secret(file) = self {
            let path = file.path.display();
            tracing::info!("to log in on the page: user {OPERATOR:?}, password in {path}");
        }
    }

    /// Whether a login can succeed at all, and what one needs for it. Everybody on the machine may
    /// ask that, so it does not tell where the file is: the log does.
    pub(crate) fn how(&self) -> Result<String, String> {
        match self {
            Self::Secret(_) => Ok(format!(
                "user {OPERATOR:?}, with the password in the file {FILE} of the server's data \
                 directory"
            )),
            Self::Nobody => Err(NOBODY.to_owned()),
            Self::Users(_) => Ok("a user with the inspect right on everything".to_owned()),
        }
    }
}

/// There are no users: who can read a file in the data directory may act.
pub(crate) struct SecretFile {
    path: PathBuf,
    secret: Secret,
}

/// The user that goes with it.
const OPERATOR: &str = "operator";

/// When a wrong secret is answered. It has 192 random bits, so nobody has to be slowed down for
/// its sake; this keeps a program that repeats a wrong one from doing so without a pause.
const WRONG: Duration = Duration::from_secs(1);

/// Its file.
const FILE: &str = "operator.secret";

impl Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SecretFile {
    /// Reads the file, or makes it.
    pub(crate) fn open(dir: &Path) -> Result<Self, StartError> {
        let path = dir.join(FILE);
        let bad = |why| StartError::Data { path: path.clone(), why };
        let secret = match private::read_secret(&path) {
            Ok(Ok(text)) => Secret::copy(Zeroizing::new(text).trim_ascii()),
            Ok(Err(why)) => {
                tracing::warn!("{}: {why}; creating a new password", path.display());
                make(&path).map_err(bad)?
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => make(&path).map_err(bad)?,
            Err(why) => return Err(bad(why)),
        };
        if secret.reveal().len() < 16 {
            let why = "it has less than 16 characters; delete it, and the next start creates a new \
                       one";
            return Err(bad(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Ok(Self { path, secret })
    }

    fn check(&self, user: &str, password: &Secret) -> Result<Rights, Denied> {
        let same = self.secret.reveal().ct_eq(password.reveal());
        if user == OPERATOR && bool::from(same) {
            return Ok(Rights { act: true });
        }
        Err(Denied("wrong user or password".to_owned()))
    }
}

fn make(path: &Path) -> io::Result<Secret> {
    let mut bytes = Zeroizing::new([0; 24]);
    getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
    let mut text = Zeroizing::new(Vec::with_capacity(2 * bytes.len() + 1));
    for byte in bytes.iter() {
        write!(text, "{byte:02x}")?;
    }
    let secret = Secret::copy(&text);
    text.push(b'\n');
    // Under another name first: half a secret would be refused at every later start.
    let new = path.with_extension("secret.new");
    let mut file = private::create(&new)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_secret_is_made_once_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = SecretFile::open(dir.path()).unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(mode(&path), 0o600);
        let again = SecretFile::open(dir.path()).unwrap();
        assert_eq!(again.secret, first.secret);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.trim().as_bytes(), text.len()), (first.secret.reveal(), 49));
        assert_eq!(first.check(OPERATOR, &first.secret), Ok(Rights { act: true }));
        let longer = format!("{}0", text.trim());
        for (user, password) in
            [("root", text.trim()), (OPERATOR, ""), (OPERATOR, "wrong"), (OPERATOR, &longer)]
        {
            let password = Secret::copy(password.as_bytes());
            assert!(first.check(user, &password).is_err(), "{user} {password:?}");
        }
        assert!(!format!("{first:?}").contains(text.trim()));
        fs::write(&path, "short\n").unwrap();
        let why = SecretFile::open(dir.path()).unwrap_err().to_string();
        assert!(why.contains("less than 16 characters"), "{why}");
    }

    #[test]
    fn service_f108_a_secret_that_others_may_know_is_drawn_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let secret = || SecretFile::open(dir.path()).unwrap().secret;
        let mut before = secret();
        for wide in [0o604, 0o640, 0o620] {
            fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
            let now = secret();
            assert_ne!(now, before, "{wide:o}");
            assert_eq!(mode(&path), 0o600);
            assert_eq!(secret(), now, "it stays");
            before = now;
        }
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let why = SecretFile::open(dir.path()).unwrap_err().to_string();
        assert!(why.contains("it is a symbolic link"), "{why}");
        // Nor is a link followed when the file is made.
        fs::remove_file(&path).unwrap();
        symlink(&elsewhere, dir.path().join("operator.secret.new")).unwrap();
        assert_ne!(secret(), before);
        assert_eq!(fs::read_to_string(&elsewhere).unwrap().trim().as_bytes(), before.reveal());
    }
}
