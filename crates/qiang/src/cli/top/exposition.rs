//! Parser of the Prometheus text format.

/// Sample of one line: a series and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MetricSample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// All samples of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricSamples(Vec<MetricSample>);

impl MetricSamples {
    /// Parses a text. Skips lines that are not samples.
    pub(super) fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse).collect())
    }

    /// Samples with this name.
    pub(super) fn for_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a MetricSample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// Sum of all samples with this name; `None` if there is no such sample.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        let mut values = self.for_name(name).map(MetricSample::value).peekable();
        values.peek()?;
        Some(values.sum())
    }

    /// Value of the sample with the name and labels of `other`, if it is here.
    pub(super) fn same(&self, other: &MetricSample) -> Option<f64> {
        let is_same = |sample: &&MetricSample| sample.labels == other.labels;
        self.for_name(&other.name)
            .find(is_same)
            .map(MetricSample::value)
    }
}

impl MetricSample {
    pub(super) fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn label(&self, name: &str) -> &str {
        let mut labels = self.labels.iter();
        labels
            .find(|(label, _)| label == name)
            .map_or("", |(_, value)| value)
    }
}

fn parse(line: &str) -> Option<MetricSample> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A timestamp may follow the value.
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some(MetricSample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// Labels up to the closing brace, and the text after it. Values may contain braces, and quotes escaped by `\`.
fn labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = rest.char_indices();
        text = loop {
            match chars.next()? {
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (at, '"') => break &rest[at + 1..],
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim().to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_labels_that_have_braces_and_quotes() {
        let text = "# HELP a b\n# TYPE a counter\na 1\n\
            b{route=\"/v1/{id}/claims\",le=\"+Inf\"} 2.5 1700000000\nb{route=\"a\\\"b,c\"} +Inf\nbroken{x=\"1} 3\nc\n";
        let samples = MetricSamples::parse(text);
        assert_eq!(samples.sum("a"), Some(1.0));
        assert_eq!(samples.sum("broken"), None);
        let of_b: Vec<_> = samples.for_name("b").collect();
        assert_eq!(of_b.len(), 2);
        assert_eq!(of_b[0].label("route"), "/v1/{id}/claims");
        assert_eq!((of_b[0].label("le"), of_b[0].value()), ("+Inf", 2.5));
        assert_eq!(of_b[1].label("route"), "a\"b,c");
        assert_eq!(samples.same(of_b[0]), Some(2.5));
    }
}
