//! Plots in SVG, legible on light and on dark pages: grouped bars, ratios, and one measurement
//! against another.

pub(crate) mod groups;
pub(crate) mod ratios;
pub(crate) mod scatter;
mod svg;

/// A plot that can be written to a file.
pub(crate) struct Plot {
    pub(crate) title: String,
    /// The name of the file.
    pub(crate) file: String,
    pub(crate) svg: String,
}
