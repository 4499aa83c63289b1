"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
  const PHASES = ["reach", "approach", "grasp", "carry", "place"];

  // Plotly reads a little HTML in its texts.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // Colours that begin with @ are the style sheet's, so that every plot follows the theme.
  const css = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  function resolve(value, key) {
    if (Array.isArray(value)) return value.map((item) => resolve(item, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, resolve(item, name)]));
    return typeof value === "string" && value[0] === "@" && /color$/.test(key || "") ? css(value.slice(1)) : value;
  }

  const entryWidth = (traces) => Math.max(...traces.map((trace) => (trace.name || "").length)) * 6.6 + 4;

  function legendRows(traces, width) {
    const names = traces.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name);
    if (names.length < 2) return 0;
    return Math.ceil(names.length / Math.max(1, Math.floor((width - 24) / (entryWidth(traces) + 44))));
  }

  function themed(figure, width) {
    const rows = legendRows(figure.traces, width);
    const legend = rows * 20 + (rows ? 14 : 0);
    const axis = { gridcolor: "@grid", linecolor: "@line", zerolinecolor: "@line", tickcolor: "@line", automargin: true, tickfont: { size: 12, color: "@soft" } };
    const layout = {
      height: figure.height + legend,
      margin: { l: 58, r: 18, t: touch ? 14 : 36, b: 52 + legend },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: 13, color: "@soft" },
      hoverlabel: { bgcolor: "@card", bordercolor: "@line", align: "left", font: { family: FONT, size: 13, color: "@ink" } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "@muted", activecolor: "@accent" },
      legend: { font: { size: 12 }, orientation: "h", xref: "container", x: 0, yref: "container", y: 0, yanchor: "bottom", itemwidth: 30, entrywidth: entryWidth(figure.traces) },
      showlegend: rows > 0,
      dragmode: touch ? false : "zoom",
      ...figure.layout,
    };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      layout[name] = { ...axis, ...layout[name] };
      if (layout[name].title) layout[name].title = { standoff: 8, font: { size: 13, color: "@soft" }, ...layout[name].title };
    }
    return resolve({ data: figure.traces, layout });
  }

  // For papers: always in the light colours, on white.
  function saveSvg(canvas) {
    const theme = root.dataset.theme;
    root.dataset.theme = "light";
    const figure = themed(canvas.figure, canvas.clientWidth);
    root.dataset.theme = theme;
    figure.layout.paper_bgcolor = "#ffffff";
    const size = { width: canvas.clientWidth, height: figure.layout.height };
    return Plotly.downloadImage(figure, { format: "svg", filename: canvas.figure.file, ...size });
  }

  function draw(canvas, figure) {
    canvas.figure = figure;
    canvas.style.minHeight = "0";
    const { data: traces, layout } = themed(figure, canvas.clientWidth);
    const config = {
      displaylogo: false,
      displayModeBar: !touch,
      toImageButtonOptions: { format: "svg", filename: figure.file },
      modeBarButtons: [
        [{ name: "svg", title: "Save as SVG", icon: Plotly.Icons.camera, click: saveSvg }],
        ["zoom2d", "pan2d", "resetScale2d"],
      ],
    };
    canvas.drawnWidth = canvas.clientWidth;
    return Plotly.react(canvas, traces, layout, config);
  }

  const drawn = () => [...document.querySelectorAll(".canvas")].filter((canvas) => canvas.figure);

  // The theme: the system's, unless the button was pressed.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  function applyTheme() {
    root.dataset.theme = chosen || (dark.matches ? "dark" : "light");
    drawn().forEach((canvas) => draw(canvas, canvas.figure));
  }
  dark.addEventListener("change", applyTheme);
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    applyTheme();
  });
  applyTheme();

  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      drawn().filter((canvas) => canvas.clientWidth !== canvas.drawnWidth).forEach((canvas) => draw(canvas, canvas.figure));
    }, 120);
  });

  for (const canvas of document.querySelectorAll("[data-figure]")) {
    const name = canvas.dataset.figure;
    draw(canvas, { ...data.figures[name], file: name });
  }

  // One episode over time: its rate, its gripper, and how far it was expected to stray.
  function expand(runs) {
    const spans = [];
    let at = 0;
    for (const [value, count] of runs) spans.push([value, at, (at += count)]);
    return spans;
  }

  function decisionStarts(record) {
    let at = 0;
    return record.executed.map((count) => (at += count) - count);
  }

  function stepLine(spans, scale, more) {
    const last = spans[spans.length - 1];
    const x = [...spans.map((span) => span[1] * scale), last[2] * scale];
    const y = [...spans.map((span) => span[0]), last[0]];
    return { type: "scatter", mode: "lines", x, y, ...more, line: { shape: "hv", ...more.line } };
  }

  function rateTraces(record, scale) {
    const starts = decisionStarts(record);
    const rate = (index) => record.done[index] / record.executed[index];
    const byDecision = starts.map((start, index) => [rate(index), start, Math.min(start + record.executed[index], record.steps)]);
    const spans = record.rates ? expand(record.rates) : byDecision;
    const fallen = Object.entries(record.fallbacks);
    const traces = [stepLine(spans, scale, { name: "rate", line: { color: "@accent", width: 2.5 }, hovertemplate: "rate %{y:.2f}<extra></extra>" })];
    if (fallen.length)
      traces.push({
        type: "scatter", mode: "markers", name: "fallback to the policy's own chunk",
        x: fallen.map(([index]) => starts[index] * scale), y: fallen.map(([index]) => rate(index)),
        text: fallen.map(([, reason]) => plain(reason)), hovertemplate: "fallback: %{text}<extra></extra>",
        marker: { color: "@warn", symbol: "triangle-down", size: 11 },
      });
    return traces;
  }

  function gripperTraces(record, scale, yaxis) {
    const alone = record.grippers.length === 1;
    return record.grippers.flatMap((gripper, index) => {
      const color = index % 2 ? "@hue-1" : "@hue-0";
      const name = alone ? "" : plain(gripper.name) + " ";
      const x = gripper.command.map((_, step) => step * scale);
      const line = (what, values, dash) => ({
        type: "scatter", mode: "lines", name: name + what, x, y: values, yaxis,
        line: { color, width: dash ? 1.5 : 2, dash: dash || "solid" }, hovertemplate: name + what + " %{y}%<extra></extra>",
      });
      return [line("command", gripper.command, "dot"), line("fingers", gripper.opening)];
    });
  }

  function deviationTraces(run, record, scale, yaxis) {
    const starts = decisionStarts(record);
    const spans = starts.map((start, index) => [record.deviations[index], start, Math.min(start + record.executed[index], record.steps)]);
    const traces = [stepLine(spans, scale, { name: "predicted deviation", yaxis, line: { color: "@hue-2", width: 2 }, hovertemplate: "deviation %{y:.4f}<extra></extra>" })];
    if (run.tolerance !== null)
      traces.push({
        type: "scatter", mode: "lines", name: "tolerance", yaxis, x: [0, record.steps * scale], y: [run.tolerance, run.tolerance],
        line: { color: "@muted", width: 1.5, dash: "dash" }, hoverinfo: "skip",
      });
    return traces;
  }

  function phaseShapes(record, scale) {
    return expand(record.phases).map(([phase, from, to]) => ({
      type: "rect", layer: "below", xref: "x", yref: "paper", x0: from * scale, x1: to * scale, y0: 0, y1: 1,
      fillcolor: "@phase-" + phase, opacity: phase === "reach" ? 0.06 : 0.2, line: { width: 0 },
    }));
  }

  function phaseKeys(record) {
    const present = PHASES.filter((phase) => record.phases.some(([other]) => other === phase));
    return present.map((phase) => ({
      type: "scatter", mode: "markers", name: phase, x: [null], y: [null], hoverinfo: "skip",
      marker: { color: "@phase-" + phase, symbol: "square", size: 11, opacity: 0.6 },
    }));
  }

  function timelineFigure(run, spec, seed) {
    const record = run.episodes[spec][seed];
    const scale = run.hz ? 1 / run.hz : 1;
    const rows = ["rate", ...(record.grippers && record.grippers.length ? ["gripper"] : []), ...(record.deviations ? ["deviation"] : [])];
    const gap = 0.06;
    const tall = (1 - gap * (rows.length - 1)) / (rows.length + 0.4);
    const titles = { rate: "rate", gripper: "open (%)", deviation: "deviation" };
    const layout = { xaxis: { title: { text: run.hz ? "time (s)" : "control step" }, zeroline: false, range: [0, record.steps * scale] }, hovermode: "x unified", hoversubplots: "axis" };
    let top = 1;
    rows.forEach((row, index) => {
      const height = row === "rate" ? 1.4 * tall : tall;
      const bottom = Math.max(0, top - height);
      layout["yaxis" + (index ? index + 1 : "")] = { title: { text: titles[row] }, domain: [bottom, top], rangemode: "tozero", zeroline: false, nticks: 5 };
      top = bottom - gap;
      layout.xaxis.anchor = "y" + (index ? index + 1 : "");
    });
    const axisOf = (row) => "y" + (rows.indexOf(row) ? rows.indexOf(row) + 1 : "");
    const traces = rateTraces(record, scale);
    if (rows.includes("gripper")) {
      layout["yaxis" + axisOf("gripper").slice(1)].range = [-8, 112];
      traces.push(...gripperTraces(record, scale, axisOf("gripper")));
    }
    if (rows.includes("deviation")) traces.push(...deviationTraces(run, record, scale, axisOf("deviation")));
    if (record.phases) {
      layout.shapes = phaseShapes(record, scale);
      traces.push(...phaseKeys(record));
    }
    return { traces, layout, height: 110 + 120 * (rows.length + 0.4), file: "timeline-seed-" + seed };
  }

  function timelineWords(run, spec, seed) {
    const record = run.episodes[spec][seed];
    const seconds = (steps) => steps + " steps" + (run.hz ? " (" + (steps / run.hz).toFixed(1) + " s)" : "");
    const label = run.schedulers.find((scheduler) => scheduler.spec === spec).label;
    let words = label + " on seed " + seed + (run.tasks[seed] ? ", " + run.tasks[seed] : "") + ": ";
    words += (record.success ? "solved in " : "not solved in ") + seconds(record.steps) + ".";
    const base = spec !== "base" && run.episodes.base && run.episodes.base[seed];
    if (base) words += " The unpatched policy: " + (base.success ? "solved in " : "not solved in ") + seconds(base.steps) + ".";
    if (base && base.success && record.success) words += " Speedup " + (base.steps / record.steps).toFixed(2) + "×.";
    return words;
  }

  function timelineNote(run, record) {
    if (!record.rates) return "From the decisions alone: this episode's trace is not on the page, so phases, gripper and deviation are missing.";
    const notes = [];
    if (!record.phases) notes.push("Phases and gripper are missing: the robot is not known here.");
    if (record.deviations) notes.push("The deviation of each executed chunk is what the world model of " + run.judge + " predicts.");
    else notes.push("The predicted deviation is missing: no patch in this run is certainly the one that ran.");
    return notes.join(" ");
  }

  function setUpTimeline(box) {
    const run = data.runs[Number(box.dataset.run)];
    const [specs, seeds, canvas] = [".spec", ".seed", ".canvas"].map((name) => box.querySelector(name));
    const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
    specs.append(...run.schedulers.map((scheduler) => option(scheduler.spec, scheduler.label)));

    function show(spec, seed) {
      const known = Object.keys(run.episodes[spec]);
      const wanted = known.includes(String(seed)) ? String(seed) : known[0];
      specs.value = spec;
      seeds.replaceChildren(...known.map((value) => option(value, value)));
      seeds.value = wanted;
      box.dataset.spec = spec;
      box.dataset.seed = wanted;
      box.querySelector(".words").textContent = timelineWords(run, spec, wanted);
      box.querySelector(".note").textContent = timelineNote(run, run.episodes[spec][wanted]);
      draw(canvas, timelineFigure(run, spec, wanted));
    }
    specs.addEventListener("change", () => show(specs.value, seeds.value));
    seeds.addEventListener("change", () => show(specs.value, seeds.value));
    for (const button of box.querySelectorAll(".step"))
      button.addEventListener("click", () => {
        const known = [...seeds.options].map((item) => item.value);
        const next = known.indexOf(seeds.value) + Number(button.dataset.by);
        show(specs.value, known[(next + known.length) % known.length]);
      });
    const episodes = document.querySelector('[data-figure="episodes-' + box.dataset.run + '"]');
    episodes.on("plotly_click", (event) => {
      const point = event.points[0];
      show(point.customdata, point.x);
      box.scrollIntoView({ behavior: "smooth", block: "nearest" });
    });
    show(...run.first);
  }
  document.querySelectorAll(".timeline").forEach(setUpTimeline);

  for (const button of document.querySelectorAll(".copy"))
    button.addEventListener("click", () => {
      const text = button.parentElement.querySelector("code").textContent;
      const said = (word) => { button.textContent = word; setTimeout(() => (button.textContent = "Copy"), 1500); };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => said("Copied"), () => said("Select it"));
      else said("Select it");
    });
  root.dataset.ready = "yes";
})();
