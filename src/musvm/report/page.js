"use strict";
// Draws the histograms from the numbers in the page, moves them with the slider, sorts tables.
// Text goes into the page through textContent only; labels for Plotly arrive escaped.
(() => {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const panels = [...document.querySelectorAll(".panel")];
  const labels = document.querySelector(".labels");
  const accepted = document.querySelector(".accepted");
  const hasUniversum = data.n_universum > 0;
  const centres = data.edges.slice(1).map((edge, i) => (edge + data.edges[i]) / 2);
  const config = { displayModeBar: false, responsive: true };
  const paperWidth = { panel: 320, labels: 660 };
  let shown = data.shown;
  let paper = false;

  const percent = (counts, total) => counts.map((c) => (total ? (100 * c) / total : 0));
  const style = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  // The same height for all panels and all Delta, so that nothing but the data moves.
  const tallest = (() => {
    let top = 0;
    for (const model of [data.plain, ...data.path]) {
      model.training.forEach((counts, k) => {
        top = Math.max(top, ...percent(counts, data.n_training[k]));
      });
      for (const counts of model.universum) {
        top = Math.max(top, ...percent(counts, data.n_universum));
      }
    }
    return Math.min(1.08 * top, 104);
  })();

  function models() {
    const rows = [{ name: "plain SVM", of: data.plain }];
    if (hasUniversum) {
      rows.push({ name: "MU-SVM, Δ = " + data.deltas[shown], of: data.path[shown] });
    }
    return rows;
  }

  function panelTraces(k) {
    return models().flatMap((model, row) => {
      const yaxis = row ? "y2" : "y";
      const training = {
        type: "bar", name: "training", x: centres, yaxis,
        y: percent(model.of.training[k], data.n_training[k]),
        marker: { color: style("training"), opacity: 0.75 },
        hovertemplate: "%{y:.1f} % of the class<extra></extra>",
      };
      const universum = {
        type: "scatter", mode: "lines", name: "universum", x: centres, yaxis,
        y: percent(model.of.universum[k], data.n_universum),
        line: { shape: "hvh", color: style("universum"), width: 1.6 },
        fill: "tozeroy", fillcolor: style("shade"),
        hovertemplate: "%{y:.1f} % of the universum<extra></extra>",
      };
      return hasUniversum ? [training, universum] : [training];
    });
  }

  function axis(title, extra) {
    return {
      title: { text: title, standoff: 6 }, gridcolor: style("line"), zeroline: false,
      linecolor: style("line"), fixedrange: true, ...extra,
    };
  }

  function frame(width, extra) {
    return {
      ...(paper ? { width, autosize: false } : { autosize: true }),
      paper_bgcolor: style("paper"), plot_bgcolor: style("paper"),
      font: { color: style("ink"), size: 12, family: "system-ui, sans-serif" },
      showlegend: false, dragmode: false, hovermode: "closest", bargap: 0, ...extra,
    };
  }

  function panelLayout() {
    const rows = models();
    const ends = [data.edges[0], data.edges[data.edges.length - 1]];
    const domains = rows.length > 1 ? [[0.54, 1], [0, 0.46]] : [[0, 1]];
    const layout = frame(paperWidth.panel, {
      margin: { l: 50, r: 8, t: 8, b: 44 }, annotations: [], shapes: [],
    });
    layout.xaxis = axis("projection (margin = 1)", { range: ends, anchor: rows.length > 1 ? "y2" : "y" });
    rows.forEach((row, i) => {
      layout[i ? "yaxis2" : "yaxis"] = axis("% of points", {
        range: [0, tallest], domain: domains[i], nticks: 4,
      });
      layout.annotations.push({
        text: row.name, xref: "paper", x: 0, xanchor: "left", xshift: 4, yref: "paper",
        y: domains[i][1], yanchor: "top", showarrow: false, bgcolor: style("paper"), opacity: 0.9,
      });
      for (const x of [-1, 0, 1]) {
        layout.shapes.push({
          type: "line", x0: x, x1: x, yref: "paper", y0: domains[i][0], y1: domains[i][1],
          line: {
            color: style(x ? "margin" : "boundary"), width: 1.2, dash: x ? "dash" : "dot",
          },
        });
      }
    });
    return layout;
  }

  function drawLabels() {
    const positions = data.classes.map((_, k) => k);
    const traces = models().map((model, row) => ({
      type: "bar", orientation: "h", y: positions, name: row ? "MU-SVM" : "plain SVM",
      x: percent(model.of.labels, data.n_universum), customdata: data.classes,
      marker: { color: style(row ? "universum" : "plain") },
      hovertemplate: "%{customdata}: %{x:.1f} %<extra></extra>",
    }));
    const layout = frame(paperWidth.labels, {
      bargap: 0.3, height: 90 + 34 * positions.length, margin: { l: 10, r: 12, t: 4, b: 44 },
      xaxis: axis("% of the universum", { rangemode: "tozero", range: [0, labelTop] }),
      yaxis: axis("", {
        tickmode: "array", tickvals: positions, ticktext: data.classes, autorange: "reversed",
        automargin: true, showgrid: false,
      }),
      shapes: [{
        type: "line", yref: "paper", y0: 0, y1: 1,
        x0: 100 / positions.length, x1: 100 / positions.length,
        line: { color: style("uniform"), width: 2, dash: "dash" },
      }],
    });
    return Plotly.react(labels, traces, layout, config);
  }
  function drawAccepted() {
    const traces = models().map((model, row) => ({
      type: "scatter", mode: "lines", name: row ? "MU-SVM" : "plain SVM",
      x: data.shares, y: model.of.accepted,
      line: { color: style(row ? "universum" : "plain"), width: 2.5 },
      hovertemplate: "%{x:.0f} % of the classes, %{y:.1f} % of the universum<extra></extra>",
    }));
    const layout = frame(paperWidth.labels, {
      height: 320, margin: { l: 54, r: 12, t: 8, b: 44 },
      xaxis: axis("% of left-out training points accepted", { range: [0, 101] }),
      yaxis: axis("% of the universum accepted", { range: [-1, 103] }),
    });
    return Plotly.react(accepted, traces, layout, config);
  }
  const labelTop = 1.05 * Math.max(
    100 / data.classes.length,
    ...[data.plain, ...data.path].flatMap((model) => percent(model.labels, data.n_universum)),
  );

  function markPathRow() {
    document.querySelectorAll(".path tbody tr").forEach((row) => {
      const key = row.cells[0].dataset.key;
      row.classList.toggle("marked", key !== undefined && +key === data.path[shown].delta);
    });
  }

  function draw() {
    panels.forEach((panel, k) => Plotly.react(panel, panelTraces(k), panelLayout(), config));
    if (hasUniversum) {
      drawLabels();
      drawAccepted();
      markPathRow();
    }
  }

  function connectSlider() {
    const slider = document.getElementById("delta");
    if (!slider) return;
    const outputs = [
      document.getElementById("delta-shown"), ...document.querySelectorAll(".delta-shown"),
    ];
    const errors = ["training-error", "left-out-error"].map((id) => document.getElementById(id));
    let pending = 0;
    const follow = () => {
      shown = +slider.value;
      const text = "Δ = " + data.deltas[shown];
      slider.setAttribute("aria-valuetext", text);
      outputs.forEach((output) => { output.textContent = text; });
      errors.forEach((output, k) => { output.textContent = data.path[shown].errors[k]; });
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(draw);
    };
    slider.addEventListener("input", follow);
    // A browser may restore the slider's position when the page is loaded again.
    if (+slider.value !== shown) follow();
    slider.setAttribute("aria-valuetext", "Δ = " + data.deltas[shown]);
  }

  function cellKey(row, column, numeric) {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent;
    return cell.dataset.key === undefined ? null : +cell.dataset.key;
  }

  // Cells without a value stay at the end, whichever way the others are sorted.
  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  }

  function sortBy(table, header) {
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    const numeric = header.classList.contains("number");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [cellKey(row, header.cellIndex, numeric), row]);
    rows.sort(([a], [b]) => compare(a, b, ascending ? 1 : -1));
    body.append(...rows.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      header.querySelector("button").addEventListener("click", () => sortBy(table, header));
    }
  }
  // On paper the figures have the colours of the light theme and fit the page.
  function drawForPaper(printing) {
    document.documentElement.toggleAttribute("data-printing", printing);
    paper = printing;
    draw();
  }

  draw();
  connectSlider();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", () => drawForPaper(true));
  addEventListener("afterprint", () => drawForPaper(false));
})();
