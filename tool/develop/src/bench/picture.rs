//! Pictures as SVG, written by hand: bars for the ratios of the headline rows,
//! curves for figures. They read on a light and on a dark page.

use std::fmt::Write;

use super::sheet::{factor, number};

const WIDTH: f64 = 760.0;
const BAR: f64 = 18.0;
/// Space for the names to the left of the bars.
const NAMES: f64 = 300.0;
const COLOURS: [&str; 4] = ["#2f7ed8", "#d8622f", "#3a9d5d", "#8a4fbf"];

/// One bar, or several of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub name: String,
    /// A ratio for each of the legend's entries; `None` where there is none.
    pub ratios: Vec<Option<f64>>,
}

/// Bars of ratios on a logarithmic scale, around a line at 1: to the right of it Chitin needs less.
pub fn ratios(title: &str, legend: &[&str], rows: &[Bars]) -> String {
    let all = || rows.iter().flat_map(|row| row.ratios.iter().flatten().copied());
    let most = all().fold(10.0_f64, f64::max).log10().ceil();
    let least = all().fold(1.0_f64, f64::min).max(1e-3).log10().floor();
    let place = |ratio: f64| NAMES + (ratio.clamp(1e-3, 1e9).log10() - least) / (most - least) * (WIDTH - NAMES - 70.0);
    let row_height = BAR * legend.len() as f64 + 10.0;
    let height = 70.0 + row_height * rows.len() as f64;
    let mut svg = begin(title, height);
    for (index, name) in legend.iter().enumerate() {
        let at = NAMES + index as f64 * 150.0;
        rectangle(&mut svg, [at, 34.0, 12.0, 12.0], COLOURS[index % COLOURS.len()]);
        text(&mut svg, at + 18.0, 45.0, "start", name);
    }
    for power in least as i32..=most as i32 {
        let at = place(10_f64.powi(power));
        line(&mut svg, [at, 56.0, at, height - 12.0], if power == 0 { 1.5 } else { 0.3 });
        text(&mut svg, at, height - 1.0, "middle", &number_of(power));
    }
    for (row, top) in rows.iter().zip((0..).map(|index| 60.0 + f64::from(index) * row_height)) {
        text(&mut svg, NAMES - 8.0, top + row_height / 2.0, "end", &row.name);
        for (index, ratio) in row.ratios.iter().enumerate().filter_map(|(index, ratio)| Some((index, (*ratio)?))) {
            let (one, end) = (place(1.0), place(ratio));
            let y = top + index as f64 * BAR;
            rectangle(
                &mut svg,
                [one.min(end), y, (end - one).abs().max(1.0), BAR - 4.0],
                COLOURS[index % COLOURS.len()],
            );
            text(&mut svg, one.max(end) + 4.0, y + 11.0, "start", &factor(ratio));
        }
    }
    svg + "</svg>\n"
}

fn number_of(power: i32) -> String {
    if power < 0 { format!("1/{}", number(10_f64.powi(-power))) } else { number(10_f64.powi(power)) }
}

/// One curve: its name and its points.
pub type Curve = (String, Vec<(f64, f64)>);

/// Curves over a common axis, both from 0.
pub fn curves(title: &str, x: &str, y: &str, curves: &[Curve]) -> String {
    const HEIGHT: f64 = 420.0;
    const LEFT: f64 = 90.0;
    let points = || curves.iter().flat_map(|(_, points)| points);
    let most_x = points().map(|point| point.0).fold(1.0, f64::max);
    let most_y = points().map(|point| point.1).fold(1.0, f64::max);
    let place_x = |value: f64| LEFT + value / most_x * (WIDTH - LEFT - 150.0);
    let place_y = |value: f64| HEIGHT - 50.0 - value / most_y * (HEIGHT - 100.0);
    let mut svg = begin(title, HEIGHT);
    line(&mut svg, [LEFT, place_y(0.0), place_x(most_x), place_y(0.0)], 1.0);
    line(&mut svg, [LEFT, place_y(0.0), LEFT, place_y(most_y)], 1.0);
    text(&mut svg, place_x(most_x / 2.0), HEIGHT - 12.0, "middle", x);
    text(&mut svg, LEFT, place_y(most_y) - 10.0, "middle", y);
    for part in 0..=4 {
        let part = f64::from(part) / 4.0;
        text(&mut svg, place_x(most_x * part), HEIGHT - 32.0, "middle", &number(most_x * part));
        text(&mut svg, LEFT - 6.0, place_y(most_y * part) + 4.0, "end", &number(most_y * part));
    }
    for ((name, points), colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{:.1},{:.1}", place_x(*x), place_y(*y))).collect();
        let _ =
            writeln!(svg, r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#, path.join(" "));
        if let Some((x, y)) = points.last() {
            text(&mut svg, place_x(*x) + 8.0, place_y(*y) + 4.0, "start", name);
        }
    }
    svg + "</svg>\n"
}

fn begin(title: &str, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#777\" stroke=\"none\">\n"
    );
    text(&mut svg, WIDTH / 2.0, 18.0, "middle", title);
    svg
}

// Writing to a string cannot fail, here and below.

fn rectangle(svg: &mut String, [x, y, width, height]: [f64; 4], colour: &str) {
    let _ = writeln!(svg, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#);
}

fn line(svg: &mut String, [x1, y1, x2, y2]: [f64; 4], width: f64) {
    let _ = writeln!(
        svg,
        r##"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="#777" stroke-width="{width}"/>"##
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element is closed, and every number is one.
    fn check(svg: &str) {
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        for line in svg
            .lines()
            .filter(|line| line.starts_with("<rect") || line.starts_with("<poly") || line.starts_with("<line"))
        {
            assert!(line.ends_with("/>"));
        }
    }

    #[test]
    fn bars_stand_right_of_one_where_linux_needs_more() {
        let rows = [
            Bars { name: "null <call>".into(), ratios: vec![Some(17.4), Some(3.4)] },
            Bars { name: "pipe".into(), ratios: vec![Some(0.36), None] },
        ];
        let svg = ratios("Ratios & more", &["instructions", "silicon estimate"], &rows);
        check(&svg);
        assert!(svg.contains("null &lt;call&gt;") && svg.contains("Ratios &amp; more") && svg.contains(">17<"));
        assert_eq!(svg.matches("<rect").count(), 2 + 3);
        check(&ratios("none", &["a"], &[]));
    }

    #[test]
    fn curves_are_drawn_over_common_axes() {
        let all =
            [("three".to_owned(), vec![(0.0, 0.0), (300.0, 9e6)]), ("one".to_owned(), vec![(0.0, 0.0), (300.0, 3e6)])];
        let svg = curves("Figure", "slices", "counter", &all);
        check(&svg);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("9,000,000"));
        check(&curves("none", "x", "y", &[]));
    }
}
