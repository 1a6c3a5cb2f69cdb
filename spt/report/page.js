"use strict";
// Redraws the charts to the width of the screen, and lets a reader point, zoom, compare, sort and search.
// Without it the page shows the same charts as still pictures.
(() => {
  document.documentElement.classList.add("js");
  const data = JSON.parse(document.getElementById("data").textContent);
  const series = new Map(data.series.map((one) => [one.index, one]));
  const reading = document.getElementById("reading");
  const zoomed = document.querySelectorAll(".reset-zoom");
  const HEIGHT = 230, LEFT = 54, RIGHT = 12, TOP = 10, BOTTOM = 34;
  const shown = new Set(data.series.filter((one) => one.shown).map((one) => one.index));
  const full = [0, Math.max(data.last_step, 1)];
  let steps = full; // one range of steps for all charts, so that events line up

  const svgElement = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const htmlElement = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const number = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
    return value.toLocaleString("en", { maximumSignificantDigits: 4 });
  };
  const stepNumber = (step) => step.toLocaleString("en", { maximumFractionDigits: 1 });
  const stepTick = (step) => (step < 1e5 ? stepNumber(step) : step.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 4 }));
  const ticks = (low, high, most) => {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((size) => size * power).find((size) => size >= rough * (1 - 1e-9));
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= Math.floor(high / step + 1e-9); k++) found.push(k * step + 0); // + 0: never minus zero
    return found;
  };
  const logTicks = (low, high) => {
    const found = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power++)
      for (const digit of high - low > 2 ? [1] : [1, 2, 5]) {
        const place = power + Math.log10(digit);
        if (place >= low && place <= high) found.push(digit * 10 ** power);
      }
    return found.length > 1 ? found : ticks(10 ** low, 10 ** high, 5);
  };
  const extent = (values) => {
    const low = Math.min(...values), high = Math.max(...values), room = 0.05 * (high - low);
    if (low === high) return low ? [Math.min(0, 2 * low), Math.max(0, 2 * high)] : [-1, 1];
    return [low < 0 || low > room ? low - room : 0, high + room];
  };
  const pieces = (points) => {
    const found = [];
    for (const point of points) {
      const last = found.at(-1);
      if (last && last[0][4] === point[4]) last.push(point);
      else found.push([point]);
    }
    return found;
  };

  class Chart {
    constructor(plot) {
      this.plot = plot;
      this.content = data.charts[Number(plot.dataset.chart)];
      this.isLog = false;
      this.button = plot.closest("figure").querySelector("button.log");
      plot.tabIndex = 0;
      plot.setAttribute("aria-label", `${this.content.label}. Arrow keys read values, plus and minus zoom.`);
      plot.removeAttribute("aria-labelledby");
      this.button.addEventListener("click", () => {
        this.isLog = !this.isLog;
        this.draw();
      });
      plot.addEventListener("pointermove", (event) => this.point(event));
      plot.addEventListener("pointerleave", () => this.leave());
      plot.addEventListener("pointerdown", (event) => this.press(event));
      plot.addEventListener("pointerup", (event) => this.release(event));
      plot.addEventListener("pointercancel", () => this.leave());
      plot.addEventListener("dblclick", () => zoom(full));
      plot.addEventListener("keydown", (event) => this.key(event));
      plot.addEventListener("blur", () => this.leave());
    }

    lines() {
      return this.content.lines.filter((line) => shown.has(line.series) && line.points.length);
    }

    visible(points) {
      const inside = points.map((point) => point[0] >= steps[0] && point[0] <= steps[1]);
      // a neighbour on either side, so that lines reach the edges
      return points.filter((_, i) => inside[i] || inside[i - 1] || inside[i + 1]);
    }

    draw() {
      this.leave();
      this.width = Math.max(this.plot.clientWidth, 200);
      const lines = this.lines().map((line) => ({ series: line.series, points: this.visible(line.points) }));
      const inRange = lines.flatMap((line) => line.points.filter((p) => p[0] >= steps[0] && p[0] <= steps[1]));
      let values = (inRange.length ? inRange : lines.flatMap((line) => line.points)).flatMap((p) => [p[2], p[3]]);
      if (this.content.start !== null && steps === full) values.push(this.content.start); // or zooming would show less
      const canLog = values.length > 0 && Math.min(...values) > 0 && Math.max(...values) > Math.min(...values);
      this.button.disabled = !canLog;
      this.isLog = this.isLog && canLog;
      this.button.setAttribute("aria-pressed", String(this.isLog));
      const scale = this.isLog ? Math.log10 : (value) => value;
      const logs = this.isLog ? values.map(scale) : [];
      const range = this.isLog
        ? [Math.min(...logs) - 0.03 * (Math.max(...logs) - Math.min(...logs)), Math.max(...logs) + 0.03 * (Math.max(...logs) - Math.min(...logs))]
        : extent(values.length ? values : [0]);
      this.x = (step) => LEFT + ((step - steps[0]) / (steps[1] - steps[0])) * (this.width - LEFT - RIGHT);
      this.y = (value) => HEIGHT - BOTTOM - ((scale(value) - range[0]) / (range[1] - range[0])) * (HEIGHT - TOP - BOTTOM);
      const svg = svgElement("svg", { viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", "aria-label": this.content.label });
      this.axes(svg, range);
      const clip = svgElement("clipPath", { id: `clip-${this.plot.dataset.chart}` });
      clip.append(svgElement("rect", { x: LEFT - 3, y: TOP - 4, width: this.width - LEFT - RIGHT + 6, height: HEIGHT - BOTTOM - TOP + 8 }));
      const inner = svgElement("g", { "clip-path": `url(#clip-${this.plot.dataset.chart})` });
      if (this.content.start !== null) {
        const y = this.y(this.content.start);
        inner.append(svgElement("line", { class: "start", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      }
      for (const line of lines) this.curve(inner, series.get(line.series), line.points);
      svg.append(clip, inner);
      this.plot.replaceChildren(svg);
      this.svg = svg;
    }

    axes(svg, range) {
      const places = this.isLog ? logTicks(...range) : ticks(...range, 5);
      const right = this.width - RIGHT;
      for (const value of places) {
        const y = this.y(value);
        svg.append(svgElement("line", { class: "grid", x1: LEFT, x2: right, y1: y, y2: y }));
        svg.append(svgElement("text", { class: "tick end", x: LEFT - 6, y: y + 4 }, number(Number(value.toPrecision(6)))));
      }
      for (const step of ticks(...steps, this.width < 360 ? 4 : 5))
        svg.append(svgElement("text", { class: "tick middle", x: this.x(step), y: HEIGHT - BOTTOM + 15 }, stepTick(step)));
      svg.append(svgElement("text", { class: "tick end", x: right, y: HEIGHT - 4 }, "optimizer step"));
    }

    curve(svg, one, points) {
      const path = (places) => "M" + places.map(([step, value]) => `${this.x(step).toFixed(1)} ${this.y(value).toFixed(1)}`).join("L");
      for (const piece of pieces(points)) {
        if (piece.length === 1) {
          const [step, value, low, high] = piece[0], x = this.x(step);
          if (high > low) svg.append(svgElement("line", { class: `line ${one.color}`, x1: x, x2: x, y1: this.y(low), y2: this.y(high) }));
          svg.append(svgElement("circle", { class: `dot ${one.color}`, cx: x, cy: this.y(value), r: 3 }));
          continue;
        }
        if (piece.some((point) => point[3] > point[2])) {
          const edge = [...piece.map((p) => [p[0], p[3]]), ...piece.map((p) => [p[0], p[2]]).reverse()];
          svg.append(svgElement("path", { class: `band ${one.color}`, d: path(edge) + "Z" }));
        }
        svg.append(svgElement("path", { class: `line ${one.color}`, d: path(piece.map((p) => [p[0], p[1]])), "stroke-dasharray": one.dashes }));
        if (points.length <= data.max_dots)
          for (const [step, value] of piece)
            svg.append(svgElement("circle", { class: `dot ${one.color}`, cx: this.x(step), cy: this.y(value), r: 2.5 }));
      }
    }

    stepsInRange() {
      const all = this.lines().flatMap((line) => line.points.map((point) => point[0]));
      return [...new Set(all)].filter((step) => step >= steps[0] && step <= steps[1]).sort((a, b) => a - b);
    }

    stepAt(event) {
      const place = event.clientX - this.plot.getBoundingClientRect().left;
      return steps[0] + ((place - LEFT) / (this.width - LEFT - RIGHT)) * (steps[1] - steps[0]);
    }

    point(event) {
      if (this.pressed !== undefined && event.pointerType !== "touch") {
        const [from, to] = [this.pressed, this.stepAt(event)].sort((a, b) => a - b).map((step) => this.x(step));
        this.selection ??= this.svg.appendChild(svgElement("rect", { class: "selection", y: TOP, height: HEIGHT - TOP - BOTTOM }));
        this.selection.setAttribute("x", from);
        this.selection.setAttribute("width", to - from);
      }
      this.show(this.stepAt(event), false);
    }

    press(event) {
      if (event.button === 0) this.pressed = this.stepAt(event);
      if (event.pointerType === "mouse") this.plot.setPointerCapture(event.pointerId);
    }

    release(event) {
      const from = this.pressed, to = this.stepAt(event);
      this.pressed = undefined;
      this.selection?.remove();
      this.selection = undefined;
      if (from !== undefined && event.pointerType !== "touch" && Math.abs(this.x(to) - this.x(from)) > 8)
        zoom([Math.min(from, to), Math.max(from, to)]);
    }

    key(event) {
      const places = this.stepsInRange();
      const now = places.indexOf(this.current);
      const moves = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(places.length - 1, now + 1), Home: 0, End: places.length - 1 };
      const middle = this.current ?? (steps[0] + steps[1]) / 2, half = (steps[1] - steps[0]) / 4;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in moves && places.length) this.show(places[moves[event.key]], true);
      else if (event.key === "+" || event.key === "=") zoom([middle - half, middle + half]);
      else if (event.key === "-") zoom([middle - 4 * half, middle + 4 * half]);
      else if (event.key === "Escape") zoom(full);
      else return;
      event.preventDefault();
    }

    show(step, isSpoken) {
      const places = this.stepsInRange();
      if (!places.length) return;
      const nearest = places.reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best));
      this.current = nearest;
      const x = this.x(nearest);
      this.cursor ??= this.svg.appendChild(svgElement("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM }));
      this.cursor.setAttribute("x1", x);
      this.cursor.setAttribute("x2", x);
      this.tip ??= this.plot.appendChild(htmlElement("div", "tip"));
      const texts = this.fill(nearest);
      this.place(x);
      if (isSpoken) reading.textContent = texts.join(", ");
    }

    place(x) {
      // beside the cursor where there is room in the window, else below the chart
      const { left } = this.plot.getBoundingClientRect(), window = document.documentElement.clientWidth;
      const width = this.tip.offsetWidth;
      const fitsRight = left + x + 12 + width < window - 4, fitsLeft = left + x - 12 - width > 4;
      const beside = fitsRight ? x + 12 : x - 12 - width;
      const below = Math.min(Math.max(x - width / 2, 8 - left), window - 8 - left - width);
      this.tip.style.left = `${fitsRight || fitsLeft ? beside : below}px`;
      this.tip.style.top = fitsRight || fitsLeft ? "0" : `${HEIGHT}px`;
    }

    fill(step) {
      const texts = [`step ${stepNumber(step)}`], list = htmlElement("ul");
      const found = this.lines()
        .map((line) => [series.get(line.series), line.points.find((point) => point[0] === step)])
        .filter(([, point]) => point)
        .sort((a, b) => b[1][1] - a[1][1]);
      for (const [one, [, value, low, high, runs]] of found) {
        const range = runs > 1 ? ` (${number(low)} to ${number(high)}, ${runs} runs)` : "";
        const label = data.series.length > 1 ? one.label : "";
        const item = htmlElement("li");
        const sample = svgElement("svg", { class: "sample", viewBox: "0 0 30 12", width: 30, height: 12 });
        sample.append(svgElement("line", { class: `line ${one.color}`, x1: 0, y1: 6, x2: 30, y2: 6, "stroke-dasharray": one.dashes }));
        const words = htmlElement("span");
        words.append(label ? `${label} ` : "", htmlElement("b", "", number(value)), range);
        item.append(sample, words);
        list.append(item);
        texts.push(`${label} ${number(value)}${range}`.trim());
      }
      this.tip.replaceChildren(htmlElement("div", "", texts[0]), list);
      return texts;
    }

    leave() {
      for (const part of [this.cursor, this.tip, this.selection]) part?.remove();
      this.cursor = this.tip = this.selection = this.pressed = this.current = undefined;
    }
  }

  const charts = [...document.querySelectorAll(".plot")].map((plot) => new Chart(plot));
  const drawAll = () => charts.forEach((chart) => chart.draw());
  const zoom = ([from, to]) => {
    const focused = charts.find((chart) => chart.plot === document.activeElement), current = focused?.current;
    const isFull = from <= full[0] && to >= full[1];
    steps = isFull ? full : [Math.max(from, full[0]), Math.min(to, full[1])];
    if (steps[1] - steps[0] < 1) steps = [Math.max(0, steps[1] - 1), Math.max(1, steps[1])];
    zoomed.forEach((button) => (button.disabled = isFull));
    drawAll();
    if (current !== undefined) focused.show(current, false);
    reading.textContent = `steps ${stepNumber(Math.round(steps[0]))} to ${stepNumber(Math.round(steps[1]))}`;
  };
  zoomed.forEach((button) => button.addEventListener("click", () => zoom(full)));
  drawAll();
  let width = document.documentElement.clientWidth;
  window.addEventListener("resize", () => {
    if (document.documentElement.clientWidth !== width) drawAll();
    width = document.documentElement.clientWidth;
  });

  // settings that are drawn
  const boxes = [...document.querySelectorAll("input[data-series]")];
  const choose = () => {
    shown.clear();
    boxes.filter((box) => box.checked).forEach((box) => shown.add(Number(box.dataset.series)));
    for (const item of document.querySelectorAll(".key li")) item.hidden = !shown.has(Number(item.dataset.series));
    drawAll();
  };
  boxes.forEach((box) => box.addEventListener("change", choose));
  for (const [name, isChecked] of [["show-all", true], ["show-none", false]])
    document.querySelector(`.${name}`)?.addEventListener("click", () => {
      boxes.forEach((box) => (box.checked = isChecked));
      choose();
    });

  // tables: a stop for the Tab key only where there is something to scroll
  const stops = () => {
    for (const box of document.querySelectorAll(".scroll"))
      box.tabIndex = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight ? 0 : -1;
  };
  stops();
  window.addEventListener("resize", stops);
  document.addEventListener("toggle", stops, true);
  for (const button of document.querySelectorAll("th .sort"))
    button.addEventListener("click", () => {
      const head = button.closest("th"), table = head.closest("table"), column = [...head.parentNode.children].indexOf(head);
      const isNumber = head.classList.contains("number"), before = head.getAttribute("aria-sort");
      const sign = (before ? before === "ascending" : isNumber) ? -1 : 1; // numbers greatest first, then the other way
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.children[column], value = cell.dataset.value;
        return value !== undefined ? Number(value) : isNumber ? NaN : cell.textContent;
      };
      const compare = (a, b) => {
        const [one, two] = [key(a), key(b)];
        if (typeof one === "number" && typeof two === "number")
          return Number.isNaN(one) ? (Number.isNaN(two) ? 0 : 1) : Number.isNaN(two) ? -1 : sign * (one - two);
        return sign * String(one).localeCompare(String(two), "en", { numeric: true });
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    });

  // keys and values of a config
  for (const area of document.querySelectorAll("[data-search]")) {
    const field = area.querySelector(".search"), found = area.querySelector(".found");
    const blocks = [...area.querySelectorAll("details")];
    const wasOpen = blocks.map((block) => block.open);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of area.querySelectorAll("tbody tr")) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += row.hidden ? 0 : 1;
      }
      blocks.forEach((block, i) => {
        const hasMatch = [...block.querySelectorAll("tbody tr")].some((row) => !row.hidden);
        block.hidden = words.length > 0 && !hasMatch;
        block.open = words.length > 0 ? hasMatch : wasOpen[i];
      });
      found.textContent = words.length ? `${count} found` : "";
    });
  }

  // commands and pictures
  for (const button of document.querySelectorAll(".copy"))
    button.addEventListener("click", async () => {
      const code = button.parentNode.querySelector("code");
      let isCopied = true;
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch { // not allowed for a page from a file, in some browsers: select it, for the reader to copy
        getSelection().selectAllChildren(code);
        isCopied = document.execCommand("copy");
      }
      button.textContent = isCopied ? "Copied" : "Selected";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  const dialog = document.getElementById("large");
  for (const button of document.querySelectorAll(".enlarge"))
    button.addEventListener("click", () => {
      const small = button.querySelector("img"), large = dialog.querySelector("img");
      large.src = small.src;
      large.alt = small.alt;
      dialog.showModal();
    });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  // what is printed is all of it
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((block) => (block.open = true)));
})();
