//! What a process has in memory.

/// Resident bytes of a process, by its id or `self`.
pub(crate) fn resident(process: &str) -> Result<f64, String> {
    line(process, "VmRSS:")
}

/// The most that it ever had.
pub(crate) fn peak(process: &str) -> Result<f64, String> {
    line(process, "VmHWM:")
}

fn line(process: &str, name: &str) -> Result<f64, String> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).map_err(|why| format!("{path}: {why}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map(|count| count * 1024.0).ok_or_else(|| format!("{path}: no {name} in it"))
}
