//! Drawings: bars as boxes of text, and lines as SVG.

use std::fmt::Write;

/// A bar with its range.
pub(super) struct Bar {
    pub label: String,
    pub value: f64,
    pub least: f64,
    pub most: f64,
}

/// A line with points at equal distances.
pub(super) struct Line {
    pub label: String,
    pub points: Vec<f64>,
}

/// The number of colors, which also differ in lightness. `style.css` has each for light and dark.
const COLOURS: usize = 6;
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
/// The space for the numbers at the left, and for names below.
const LEFT: f64 = 64.0;
const BELOW: f64 = 24.0;
const ABOVE: f64 = 10.0;

/// Draws horizontal bars from zero. Returns an empty text if there is nothing to draw.
pub(super) fn bars(bars: &[Bar], show: &dyn Fn(f64) -> String) -> String {
    let most = bars.iter().map(|bar| bar.most).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let mut out = String::from("<div class=bars>\n");
    for bar in bars {
        let percent = |value: f64| value / most * 100.0;
        let (label, text) = (escape(&bar.label), show(bar.value));
        let (width, from) = (percent(bar.value), percent(bar.least));
        let span = percent(bar.most) - from;
        let _ = writeln!(
            out,
            "<div class=label>{label}</div><div class=track>\
             <div class=bar style=\"width:{width:.2}%\"></div>\
             <div class=spread style=\"left:{from:.2}%;width:{span:.2}%\"></div>\
             </div><div class=value>{text}</div>"
        );
    }
    out.push_str("</div>\n");
    out
}

/// Draws lines over named places, on a logarithmic scale.
pub(super) fn lines(lines: &[Line], places: &[&str], show: &dyn Fn(f64) -> String) -> String {
    let values = || lines.iter().flat_map(|line| &line.points).copied().filter(|&value| value > 0.0);
    let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) else {
        return String::new();
    };
    let (low, high) = (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    // Zeros are drawn at the bottom.
    let y = |value: f64| scale((value.log10().max(low) - low) / (high - low));
    let x = |at: usize| LEFT + (WIDTH - LEFT) * (at as f64 + 0.5) / places.len() as f64;
    let mut out = open();
    for power in low as i32..=high as i32 {
        let value = 10f64.powi(power);
        grid(&mut out, y(value), &show(value));
    }
    for (at, place) in places.iter().enumerate() {
        let _ = writeln!(out, "<text class=place x={:.1} y={:.1}>{place}</text>", x(at), HEIGHT - 6.0);
    }
    for (number, line) in lines.iter().enumerate() {
        let points = line.points.iter().enumerate().map(|(at, &value)| (x(at), y(value)));
        path(&mut out, number, points);
    }
    close(out, lines)
}

/// Draws lines over time, from zero.
pub(super) fn polylines(lines: &[Line], show: &dyn Fn(f64) -> String) -> String {
    let most = lines.iter().flat_map(|line| &line.points).copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let y = |value: f64| scale(value / most);
    let mut out = open();
    for quarter in 0..=4 {
        let value = most * f64::from(quarter) / 4.0;
        grid(&mut out, y(value), &show(value));
    }
    for (number, line) in lines.iter().enumerate() {
        let last = (line.points.len() - 1).max(1) as f64;
        let x = |at: usize| LEFT + (WIDTH - LEFT) * at as f64 / last;
        path(&mut out, number, line.points.iter().enumerate().map(|(at, &value)| (x(at), y(value))));
    }
    close(out, lines)
}

/// Returns the position of a value that is the fraction `part` of the way up.
fn scale(part: f64) -> f64 {
    ABOVE + (HEIGHT - ABOVE - BELOW) * (1.0 - part)
}

fn open() -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img>\n")
}

fn grid(out: &mut String, y: f64, text: &str) {
    let _ = writeln!(out, "<line class=grid x1={LEFT} x2={WIDTH} y1={y:.1} y2={y:.1} />");
    let _ = writeln!(out, "<text class=scale x={:.1} y={:.1}>{}</text>", LEFT - 6.0, y + 4.0, escape(text));
}

fn path(out: &mut String, number: usize, points: impl Iterator<Item = (f64, f64)>) {
    let points: Vec<_> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let colour = number % COLOURS;
    let _ = writeln!(out, "<polyline class=\"line c{colour}\" points=\"{}\" />", points.join(" "));
}

/// Ends the drawing and adds the names of its lines.
fn close(mut out: String, lines: &[Line]) -> String {
    out.push_str("</svg>\n<ul class=legend>\n");
    for (number, line) in lines.iter().enumerate() {
        let _ = writeln!(out, "<li><i class=c{}></i>{}</li>", number % COLOURS, escape(&line.label));
    }
    out.push_str("</ul>\n");
    out
}

/// Escapes text for HTML, including attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let show = |value: f64| value.to_string();
        assert_eq!(bars(&[], &show) + &lines(&[], &["a"], &show) + &polylines(&[], &show), "");
        let flat = Line { label: "flat".into(), points: vec![0.0, 0.0] };
        assert_eq!(polylines(&[flat], &show), "");
    }

    #[test]
    fn points_lie_inside_the_drawing() {
        let line = Line { label: "l".into(), points: vec![1.0, 10.0, 950.0] };
        let svg = lines(&[line], &["a", "b", "c"], &|value| value.to_string());
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            assert!((LEFT..WIDTH).contains(&x.parse().unwrap()), "{point}");
            assert!((0.0..HEIGHT).contains(&y.parse().unwrap()), "{point}");
        }
    }

    #[test]
    fn the_longest_bar_fills_the_track() {
        let bar = |value| Bar { label: "b".into(), value, least: value, most: value };
        let drawn = bars(&[bar(5.0), bar(10.0)], &|value| value.to_string());
        assert!(drawn.contains("width:50.00%") && drawn.contains("width:100.00%"), "{drawn}");
    }
}
