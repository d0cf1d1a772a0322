//! The machine code of the restartable sections of this program, as the compiler and the linker
//! left it: the last instruction is the commit, and nothing before it writes what others read.
#![forbid(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::sync::atomic::AtomicU64;

use lockspan_thread::percpu::{Counter, Stack};
use lockspan_thread::revocable::{Lock, PerCpu, Steal, Word};

/// In front of each place where the kernel sends an interrupted thread.
const SIGNATURE: u32 = 0x5305_3053;

/// A section, as its description has it; addresses are those of the file.
#[derive(Debug)]
struct Section {
    start: u64,
    end: u64,
    abort: u64,
}

/// Where this program lies in memory, as far as the addresses in its file do not say.
fn base() -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let exe = fs::read_link("/proc/self/exe").unwrap();
    let mut lines = maps.lines().filter(|line| line.ends_with(exe.to_str().unwrap()));
    let first = lines.next().expect("the program is in its own memory");
    u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap()
}

/// What a program prints.
fn output(program: &str, arguments: &[&str]) -> String {
    let exe = std::env::current_exe().unwrap();
    let run = Command::new(program).args(arguments).arg(exe).output();
    let run = run.unwrap_or_else(|error| panic!("{program}, of binutils: {error}"));
    assert!(run.status.success(), "{program}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Address in memory and length of a section of the file.
fn section_of_file(name: &str) -> (u64, usize) {
    let headers = output("objdump", &["-h", "-w"]);
    let line = headers.lines().find(|line| line.split_whitespace().any(|field| field == name));
    let fields: Vec<&str> = line.expect("there are sections").split_whitespace().collect();
    let number = |at: usize| u64::from_str_radix(fields[at], 16).unwrap();
    (number(3), number(2) as usize)
}

fn sections() -> Vec<Section> {
    let (base, (at, length)) = (base(), section_of_file("__rseq_cs"));
    let memory = File::open("/proc/self/mem").unwrap();
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, base + at).unwrap();
    let records = bytes.chunks_exact(32).map(|record| {
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        assert_eq!(word(0), 0, "version and flags");
        let (start, abort) = (word(8), word(24));
        let mut signature = [0; 4];
        memory.read_exact_at(&mut signature, abort - 4).unwrap();
        assert_eq!(u32::from_le_bytes(signature), SIGNATURE);
        Section { start: start - base, end: start + word(16) - base, abort: abort - base }
    });
    records.collect()
}

/// The program's instructions by their addresses.
fn instructions() -> BTreeMap<u64, String> {
    let text = output("objdump", &["-d", "-w", "--no-show-raw-insn", "-M", "intel"]);
    let lines = text.lines().filter_map(|line| {
        let (address, instruction) = line.trim_start().split_once(":\t")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        // A name in angle brackets, or a comment, tells nothing more.
        let instruction = instruction.split(['<', '#']).next().unwrap_or_default();
        Some((address, instruction.split_whitespace().collect::<Vec<_>>().join(" ")))
    });
    lines.collect()
}

/// What the instruction writes to, if that is memory.
fn written(instruction: &str) -> Option<&str> {
    let (name, operands) = instruction.split_once(' ')?;
    let reads = ["cmp", "test", "lea"].contains(&name) || name.starts_with('j');
    let first = operands.split(',').next()?;
    let name_and_first = if name == "lock" { operands.split_once(' ')?.1 } else { first };
    (!reads && name_and_first.contains('[')).then_some(name_and_first)
}

/// What is wrong with a section, if anything is.
fn fault(code: &[&str], is_inside: impl Fn(u64) -> bool) -> Option<String> {
    let (commit, before) = code.split_last()?;
    // The self-test's section stays inside until it is thrown out: it commits nothing.
    let is_self_test = code.contains(&"pause");
    let shared = written(commit).is_some_and(|place| !place.contains('*'));
    if !shared && !is_self_test {
        return Some(format!("the last instruction is no commit: {commit}"));
    }
    for instruction in before {
        let name = instruction.split(' ').next().unwrap_or_default();
        let plain = ["mov", "add", "sub", "inc", "dec", "imul", "shl", "xor", "lea", "cmova"];
        let known = plain.contains(&name) || ["cmp", "test", "pause"].contains(&name);
        if !known && !name.starts_with('j') {
            return Some(format!("not an instruction for a section: {instruction}"));
        }
        if instruction.contains("rsp") {
            return Some(format!("the stack is used: {instruction}"));
        }
        // Items, which have an index, mean nothing to others before the length is stored.
        if let Some(place) = written(instruction)
            && !place.contains("*8")
            && !is_self_test
        {
            return Some(format!("a store before the commit: {instruction}"));
        }
        if name == "jmp" {
            let target = instruction.rsplit(' ').next().unwrap_or_default();
            let target = u64::from_str_radix(target, 16).ok();
            if target.is_none_or(|target| !is_inside(target)) {
                return Some(format!("leaves for good: {instruction}"));
            }
        }
    }
    None
}

/// Each operation once, so that the program has each section.
fn use_everything() {
    let counter = Counter::new();
    counter.add(1);
    let stack = Stack::with_capacity(8);
    stack.push(1_u64).unwrap();
    let _ = stack.pop();
    let mut items = vec![1, 2, 3];
    let _ = stack.push_many(&mut items);
    let _ = stack.pop_many(3, &mut items);
    let lock = Lock::new(Word::new(0));
    let ticket = lock.acquire(Steal::Local).unwrap();
    ticket.store(|word| word, 1).unwrap();
    ticket.add(|word| word, 1).unwrap();
    assert_eq!(ticket.compare_and_store(|word| word, 2, 3), Ok(Ok(())));
    let elsewhere = AtomicU64::new(0);
    ticket.store_to(&elsewhere, 1).unwrap();
    ticket.limit(1).store_to(&elsewhere, 2).unwrap();
    PerCpu::<Word>::default().with(|ticket| ticket.add(|word| word, 1)).unwrap();
}

/// What a section does, without its operands.
fn shape(code: &[&str]) -> String {
    let names = code.iter().map(|instruction| instruction.split(' ').next().unwrap_or_default());
    names.collect::<Vec<_>>().join(" ")
}

/// A conditional store, to whatever address: three comparisons and the store.
const STORE: &str = "cmp jb cmp jne cmp jne mov";
/// The exchange of a lock's word on one processor, the only section that has an atomic
/// read-modify-write.
const EXCHANGE: &str = "cmp jne mov lock";

#[test]
fn each_section_ends_with_its_commit_and_writes_nothing_before() {
    use_everything();
    let (sections, instructions) = (sections(), instructions());
    let (mut commits, mut stores) = (BTreeMap::new(), 0);
    for section in &sections {
        let inside = section.start..section.end;
        assert!(!inside.contains(&section.abort), "{section:x?}");
        let code: Vec<&str> = instructions.range(inside.clone()).map(|(_, i)| i.as_str()).collect();
        let whole = instructions.contains_key(&section.start)
            && instructions.contains_key(&section.end)
            && !code.is_empty();
        assert!(whole, "{section:x?} does not begin and end with whole instructions");
        if let Some(wrong) = fault(&code, |target| inside.contains(&target)) {
            panic!("{section:x?}: {wrong}\n{}", code.join("\n"));
        }
        let shape = shape(&code);
        stores += usize::from(shape == STORE);
        assert!(!shape.contains("lock") || shape == EXCHANGE, "{section:x?}: {shape}");
        let commit = code.last().unwrap().split(' ').next().unwrap().to_owned();
        *commits.entry(commit).or_insert(0) += 1;
    }
    println!("{} sections end with {commits:?}", sections.len());
    for commit in ["add", "lock", "mov"] {
        assert!(commits.contains_key(commit), "no section ends with {commit}: {commits:?}");
    }
    assert!(stores > 0, "no section is a conditional store");
    // Counter, four of the stack, four of the lock, the self-test.
    assert!(sections.len() >= 10, "{} sections", sections.len());
}

#[test]
fn a_wrong_section_would_be_found() {
    let wrong = |code: &[&str]| fault(code, |target| target == 0x10).unwrap_or_default();
    let load = "mov rdx,QWORD PTR [rcx+0x8]";
    let commit = "mov QWORD PTR [rcx+0x8],rdx";
    assert_eq!(wrong(&[load, "mov QWORD PTR [rcx+rdx*8+0x40],rax", commit]), "");
    assert_eq!(wrong(&["cmp DWORD PTR [rax+0x4],ecx", "jne 20", "add QWORD PTR [rdx],rsi"]), "");
    assert_eq!(wrong(&["mov rax,rdi", "lock cmpxchg QWORD PTR [rcx],rdx"]), "");
    assert_eq!(wrong(&["jmp 10", commit]), "");
    let found = [
        (vec![commit, load], "the last instruction is no commit"),
        (vec![load, "cmp QWORD PTR [rcx],rdx"], "the last instruction is no commit"),
        (vec![load, "mov QWORD PTR [rcx+rdx*8+0x40],rax"], "the last instruction is no commit"),
        (vec!["add QWORD PTR [rdi],rsi", commit], "a store before the commit"),
        (vec!["xadd QWORD PTR [rdi],rsi", commit], "not an instruction for a section"),
        (vec!["lock add QWORD PTR [rdi],rsi", commit], "not an instruction for a section"),
        (vec!["call 30", commit], "not an instruction for a section"),
        (vec!["mov rax,QWORD PTR [rsp+0x8]", commit], "the stack is used"),
        (vec!["jmp 30", commit], "leaves for good"),
    ];
    for (code, expected) in found {
        assert!(wrong(&code).starts_with(expected), "{code:?}: {}", wrong(&code));
    }
}

/// The sections that a signal interrupts: the same for them.
#[cfg(feature = "signals")]
#[test]
fn each_section_for_signals_ends_with_its_store_and_has_no_lock_prefix() {
    use_everything();
    let (base, (at, length)) = (base(), section_of_file("lockspan_sections"));
    let memory = File::open("/proc/self/mem").unwrap();
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, base + at).unwrap();
    let instructions = instructions();
    let mut stores = 0;
    for (number, entry) in bytes.chunks_exact(12).enumerate() {
        let here = at + 12 * number as u64;
        let to = |field: usize| {
            let distance = i32::from_le_bytes(entry[4 * field..4 * field + 4].try_into().unwrap());
            here.checked_add_signed(distance.into()).unwrap()
        };
        let code: Vec<&str> = instructions.range(to(0)..to(1)).map(|(_, i)| i.as_str()).collect();
        // The list has an empty entry, and the self-test's, which spins until it is thrown out.
        if code.is_empty() || code.contains(&"pause") {
            continue;
        }
        assert_eq!(shape(&code), "mov cmp jne mov", "raise the flag, compare, store");
        let lowered: Vec<&str> =
            instructions.range(to(1)..to(2)).map(|(_, i)| i.as_str()).collect();
        assert_eq!(shape(&lowered), "mov", "and lower the flag");
        assert!([code[0], code[3], lowered[0]].iter().all(|store| written(store).is_some()));
        stores += 1;
    }
    assert!(stores > 0, "{length} bytes of entries");
}
