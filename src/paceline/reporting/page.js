"use strict";

// Colours in the figures are names of CSS variables, so that they follow the page's light or dark theme.
const figures = JSON.parse(document.getElementById("figures").textContent);
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const narrow = matchMedia("(max-width: 600px)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)").matches;

function painted(value, key) {
  if (key === "color") return colour(value);
  if (Array.isArray(value) || value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([inner, part]) => [inner, painted(part, inner)]));
}

function layoutOf(figure) {
  const axis = { gridcolor: colour("--rule"), zeroline: false, linecolor: colour("--rule") };
  const { xaxis, yaxis, ...rest } = figure.layout;
  return {
    ...rest,
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
    showlegend: false,
    dragmode: touch ? false : "zoom",
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 12, color: colour("--soft") },
    hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--rule"), font: { color: colour("--ink") } },
  };
}

function draw() {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const figure = figures[place.dataset.figure];
    const data = figure.data.map((trace) => painted(trace, ""));
    Plotly.react(place, data, layoutOf(figure), { displayModeBar: false, responsive: true });
  }
}

draw();
dark.addEventListener("change", draw);
narrow.addEventListener("change", draw);
