//! The main figures as a picture: SVG, in the colours of the reader's theme, light or dark.

use std::fmt::Write as _;

use crate::report::Report;
use crate::rounds::CostRow;

const CONTENDERS: [&str; 4] = ["RQ", "list", "stream", "BullMQ"];
const WIDTH: usize = 920;
const PANEL: usize = 440;
/// Where bars begin within a panel, and how long the longest one is.
const LEFT: usize = 62;
const LONGEST: f64 = 300.0;
const BAR: usize = 10;
const TOP: usize = 64;

struct Panel {
    title: &'static str,
    better: &'static str,
    of: fn(&Report, &str) -> Option<f64>,
}

const PANELS: [Panel; 6] = [
    Panel { title: "Server CPU per job in µs, one per call", better: "less", of: |report, name| Some(cost(report, name, 1, false)?.cost.commands_us) },
    Panel { title: "Server CPU per job in µs, 100 per call", better: "less", of: |report, name| Some(cost(report, name, 100, false)?.cost.commands_us) },
    Panel { title: "AOF bytes per job, one per call", better: "less", of: |report, name| Some(cost(report, name, 1, true)?.cost.aof_bytes) },
    Panel {
        title: "Memory per waiting job in bytes",
        better: "less",
        of: |report, name| Some(report.memory.iter().find(|row| row.contender == name && row.payload == 100)?.waiting),
    },
    Panel {
        title: "Push to delivery in µs, p99, 10 workers",
        better: "less",
        of: |report, name| Some(report.latency.iter().find(|row| row.contender == name && row.workers == 10)?.p99_us),
    },
    Panel {
        title: "Jobs per second end to end, one per call",
        better: "more",
        of: |report, name| Some(report.throughput.iter().find(|row| row.contender == name && row.batch == 1)?.jobs_per_second),
    },
];

fn cost<'a>(report: &'a Report, name: &str, batch: usize, aof: bool) -> Option<&'a CostRow> {
    let same = |row: &&CostRow| row.contender == name && row.batch == batch && row.aof == aof && !row.replica && row.payload == 100;
    report.costs.iter().find(same)
}

/// Light, then what is other in the dark.
const STYLE: &str = "<style>
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2328 }
  .title { font-size: 18px; font-weight: 600 } .head { font-weight: 600 }
  .faint { font-size: 11px; fill: #6a737d } .value { font-size: 10px; fill: #59636e }
  .own { fill: #0969da } .other { fill: #8c959f } .paper { fill: #ffffff } .line { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .faint { fill: #8b949e } .value { fill: #9da7b1 }
    .own { fill: #58a6ff } .other { fill: #6e7681 } .paper { fill: #0d1117 } .line { stroke: #30363d }
  }
</style>\n";

/// The picture of all servers.
pub fn svg(reports: &[Report], note: &str) -> String {
    let group = reports.len() * BAR + 12;
    let tall = CONTENDERS.len() * group + 44;
    let height = TOP + PANELS.len().div_ceil(2) * tall + 8;
    let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    svg.push_str("<title>RQ beside a reliable list, a stream and BullMQ</title>\n");
    svg.push_str(STYLE);
    let _ = writeln!(svg, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>");
    text(&mut svg, 20, 30, "title", "RQ beside a reliable list, a stream and BullMQ");
    let names: Vec<String> = reports.iter().map(|report| format!("{} ({})", report.server, report.version)).collect();
    let about = format!("payload of 100 bytes, medians; bars from top to bottom: {}; {note}", names.join(", "));
    text(&mut svg, 20, 48, "faint", &about);
    for (at, panel) in PANELS.iter().enumerate() {
        let (x, y) = (20 + at % 2 * (PANEL + 10), TOP + at / 2 * tall);
        draw(&mut svg, panel, reports, x, y, group);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, panel: &Panel, reports: &[Report], x: usize, y: usize, group: usize) {
    text(svg, x, y + 14, "head", panel.title);
    text(svg, x + LEFT + LONGEST as usize - 24, y + 14, "faint", &format!("{} is better", panel.better));
    let values = |name: &str| -> Vec<Option<f64>> { reports.iter().map(|report| (panel.of)(report, name)).collect() };
    let most = |names: &[&str]| names.iter().flat_map(|name| values(name)).flatten().fold(0.0, f64::max);
    // Bars of another order of magnitude are cut, so that the others can be compared.
    let (all, all_but_last) = (most(&CONTENDERS), most(&CONTENDERS[..3]));
    let whole = if all > 2.0 * all_but_last && all_but_last > 0.0 { 1.25 * all_but_last } else { all };
    let base = x + LEFT;
    let bottom = y + 26 + CONTENDERS.len() * group - 8;
    let _ = writeln!(svg, "<line class=\"line\" x1=\"{base}\" y1=\"{}\" x2=\"{base}\" y2=\"{bottom}\"/>", y + 24);
    for (nth, name) in CONTENDERS.iter().enumerate() {
        let top = y + 28 + nth * group;
        text(svg, x, top + reports.len() * BAR / 2 + 4, if nth == 0 { "head" } else { "" }, name);
        for (server, value) in values(name).into_iter().enumerate() {
            let bar_top = top + server * BAR;
            let Some(value) = value else { continue };
            let length = (value / whole).min(1.0) * LONGEST;
            let class = if nth == 0 { "own" } else { "other" };
            let opacity = 1.0 - 0.25 * server as f64;
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" opacity=\"{opacity:.2}\" x=\"{base}\" y=\"{bar_top}\" width=\"{length:.1}\" height=\"{}\"/>",
                BAR - 1
            );
            if value > whole {
                let cut = base as f64 + length - 16.0;
                let _ = writeln!(svg, "<path class=\"paper\" d=\"M{cut:.0} {} l4 -{BAR} h4 l-4 {BAR} z\"/>", bar_top + BAR);
            }
            text(svg, base + length as usize + 5, bar_top + BAR - 2, "value", &short(value));
        }
    }
}

fn text(svg: &mut String, x: usize, y: usize, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>");
}

/// Three digits at least, thousands set apart.
fn short(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ if value < 1_000.0 => format!("{value:.0}"),
        _ => format!("{},{:03}", value as u64 / 1000, value as u64 % 1000),
    }
}
