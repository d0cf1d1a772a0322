//! For tests of the C libraries: builds them and C programs, and runs those with a time limit.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// No test program runs longer than this; one that does has lost a wake-up.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Where this test program puts what it builds.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// The library `file` of `package`. Cargo does not build a cdylib for integration tests, so this
/// does, once a test program, with optimisation and debug assertions.
pub(crate) fn library(package: &str, file: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let dir = BUILT.get_or_init(|| {
        let target = Path::new(SCRATCH).join("cdylib");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--offline", "--profile", "model", "--package", package]);
        cargo.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        cargo.arg("--target-dir").arg(&target);
        let built = cargo.output().expect("cargo starts");
        assert!(built.status.success(), "{}", text(&built.stderr));
        target.join("model")
    });
    let path = dir.join(file);
    assert!(path.exists(), "cargo did not build {}", path.display());
    path
}

/// Compiles `tests/c/<source>` to a program; `args` come after the source. The name's ending
/// chooses the compiler.
pub(crate) fn program(source: &str, args: &[&str]) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let to = Path::new(SCRATCH).join(source.replace('.', "_"));
    let (compiler, standard) =
        if source.ends_with(".cc") { ("c++", "-std=c++17") } else { ("cc", "-std=gnu11") };
    let mut command = Command::new(compiler);
    command.args([standard, "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    command.arg(&to).arg(&from).args(args);
    let built = command.output().unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(built.status.success(), "{}", text(&built.stderr));
    to
}

/// Runs `command` to its end and returns what it said; kills it, and fails, after [`LIMIT`].
pub(crate) fn run(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{shown}: {e}"));
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let Some(status) = wait(&mut child) else {
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
        panic!("{shown} did not end within {LIMIT:?}");
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// As [`run`], and fails unless the program exits with 0.
pub(crate) fn run_well(command: &mut Command) -> Output {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// What `nm -D` says the library defines, sorted.
pub(crate) fn exported(library: &Path) -> Vec<String> {
    let mut nm = Command::new("nm");
    let output = run_well(nm.args(["-D", "--defined-only"]).arg(library));
    let mut names: Vec<String> = text(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap().to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The functions of libc that POSIX names as cancellation points, or lets be one, as far as a
/// program without a terminal and a network could meet them; and their variants in glibc.
const CANCELLATION_POINTS: &str = "
    accept aio_suspend clock_nanosleep close connect creat fcntl fcntl64 fdatasync fgets flock
    fopen fopen64 fprintf fputs fread fsync fwrite getpwnam_r getpwuid_r lockf msync nanosleep
    open open64 openat openat64 opendir pause poll ppoll pread pread64 printf pselect
    pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join
    pthread_testcancel puts pwrite pwrite64 read readdir64 readv recv recvfrom recvmsg select
    sem_timedwait sem_wait send sendmsg sendto sigpause sigsuspend sigtimedwait sigwait
    sigwaitinfo sleep syslog system usleep wait wait4 waitid waitpid write writev
";

/// Fails if the library can call a cancellation point besides those in `allowed`, each with the
/// reason why no lock call acts on a cancellation in it, or if one of those is not needed.
pub(crate) fn imports_no_cancellation_point_but(library: &Path, allowed: &[(&str, &str)]) {
    let mut nm = Command::new("nm");
    let output = run_well(nm.args(["-D", "--undefined-only"]).arg(library));
    let said = text(&output.stdout);
    let imported = said.lines().filter_map(|line| line.split_whitespace().nth(1));
    let imported: Vec<_> = imported.map(|name| name.split('@').next().unwrap()).collect();
    assert!(imported.contains(&"syscall"), "the list is not the one of a library: {said}");
    let known: Vec<_> = CANCELLATION_POINTS.split_whitespace().collect();
    let points = imported.iter().filter(|name| known.contains(name));
    let points: Vec<_> = points.copied().collect();
    let names: Vec<_> = allowed.iter().map(|(name, _)| *name).collect();
    let mut unexplained: Vec<_> = points.iter().filter(|name| !names.contains(name)).collect();
    unexplained.sort();
    assert!(unexplained.is_empty(), "cancellation points without a reason: {unexplained:?}");
    let idle: Vec<_> = names.iter().filter(|name| !points.contains(name)).collect();
    assert!(idle.is_empty(), "allowed and not imported: {idle:?}");
}

/// The bytes as text, whatever they are.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn reader<R: std::io::Read + Send + 'static>(from: Option<R>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.expect("it is piped").read_to_end(&mut all).expect("a pipe can be read");
        all
    })
}
