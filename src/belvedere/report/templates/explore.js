"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const floats = (text) => new Float32Array(bytes(text).buffer);
const shares = (text) => Float32Array.from(new Uint16Array(bytes(text).buffer), (step) => step / 65535);
const { cells, blocks, looks, lens, effects } = data;
const beside = data.words.every(([, , image]) => image < 0);

// The numbers, as the page was given them.

const rows = (held) => held && { steps: bytes(held.steps), most: floats(held.most) };
const attention = looks.reason === undefined ? prepared() : null;
const words = lens.reason === undefined && {
  tokens: new (lens.wide ? Uint32Array : Uint16Array)(bytes(lens.tokens).buffer),
  probabilities: shares(lens.probabilities),
  watched: shares(lens.watched),
};
const patched = effects.reason === undefined && floats(effects.values);

function prepared() {
  const places = new Map();
  let answer = 0, tokens = 0;
  for (const [block, heads, own] of looks.blocks) {
    places.set(block, { heads, own, answer, tokens });
    answer += heads;
    tokens += looks.queries.length * own;
  }
  return { places, answer: rows(looks.answer), tokens: rows(looks.tokens) };
}

function row(held, number) {
  const scale = held.most[number] / 255;
  return Float32Array.from(held.steps.subarray(number * cells, (number + 1) * cells), (step) => step * scale);
}

function headsOf(block, token) {
  const place = attention && attention.places.get(block);
  return place ? (token === null ? place.heads : place.own) : 0;
}

// Attention of a token (null is the answer) at a block; a head below 0 is the mean of all.
function attended(token, block, head) {
  const place = attention && attention.places.get(block);
  if (!place) return null;
  const count = headsOf(block, token);
  const held = token === null ? attention.answer : attention.tokens;
  const first = token === null ? place.answer : place.tokens + looks.queries.indexOf(token) * count;
  if (head >= 0 && head < count) return row(held, first + head);
  if (head >= 0 && count > 1) return null;
  const mean = new Float32Array(cells);
  for (let one = 0; one < count; one++) {
    const own = row(held, first + one);
    for (let cell = 0; cell < cells; cell++) mean[cell] += own[cell] / count;
  }
  return mean;
}

// The same of one place: what each head of a block gives it.
function given(token, block, cell) {
  const place = attention && attention.places.get(block), count = headsOf(block, token);
  if (!place) return [];
  const held = token === null ? attention.answer : attention.tokens;
  const first = token === null ? place.answer : place.tokens + looks.queries.indexOf(token) * count;
  return Array.from({ length: count }, (_, head) => held.steps[(first + head) * cells + cell] * held.most[first + head] / 255);
}
const averaged = (held) => held.length ? held.reduce((sum, one) => sum + one, 0) / held.length : null;

const ranked = (layers, block) => layers ? layers.indexOf(block) : -1;
function taken(values, layers, block) {
  const index = ranked(layers, block);
  return values && index >= 0 ? values.subarray(index * cells, (index + 1) * cells) : null;
}

// What is chosen.

const state = { token: null, block: 0, head: -1, map: "attention", scale: "own", cell: null, held: false };
state.block = attention ? looks.blocks[looks.blocks.length >> 1][0] : blocks >> 1;
const spots = new Map();
data.sheets.forEach((sheet, number) => sheet.cells.forEach((cell, place) => spots.set(cell, { sheet, number, place, box: sheet.boxes[place] })));

function mapped(block) {
  if (state.map === "attention") return attended(state.token, block, state.head);
  if (state.map === "lens") return taken(words && words.watched, lens.layers, block);
  return taken(patched, effects.layers, block);
}

function missing() {
  if (state.map === "attention" && looks.reason) return looks.reason;
  if (state.map === "lens" && lens.reason) return lens.reason;
  if (state.map === "effect" && effects.reason) return effects.reason;
  if (state.map === "effect") return `patched were blocks ${effects.layers.join(", ")}`;
  if (state.map === "attention") return looks.reasons[state.block] || `block ${state.block} has ${headsOf(state.block, state.token)} heads`;
  return "this block was not read";
}

const limits = new Map();
function limit(values) {
  const key = [state.map, state.token, state.head, state.scale === "own" ? state.block : "all"].join();
  if (!limits.has(key)) limits.set(key, largest(values));
  return limits.get(key);
}
function largest(values) {
  const every = state.scale === "own" ? [values] : Array.from({ length: blocks }, (_, block) => mapped(block));
  let most = 0;
  for (const held of every) if (held) for (const value of held) most = Math.max(most, Math.abs(value));
  return most;
}

// Colours: nothing has none, more is darker; purple is below zero. The maps Oranges and PuOr of ColorBrewer.

const ORANGE = [[254, 230, 206], [253, 174, 107], [241, 105, 19], [166, 54, 3], [127, 39, 4]];
const PURPLE = [[216, 218, 235], [178, 171, 210], [128, 115, 172], [84, 39, 136], [45, 0, 75]];
function colour(share) {
  const ramp = share < 0 ? PURPLE : ORANGE, strength = Math.min(1, Math.abs(share));
  const spot = strength * (ramp.length - 1), low = Math.min(ramp.length - 2, Math.floor(spot));
  const mixed = ramp[low].map((from, part) => Math.round(from + (ramp[low + 1][part] - from) * (spot - low)));
  return `rgba(${mixed.join(",")},${(0.9 * strength ** 0.8).toFixed(3)})`;
}

const written = (value) => value === null || value === undefined ? "" : Math.abs(value) >= 0.0005 || value === 0 ? value.toFixed(3) : value.toExponential(1);
const seen = (text) => text.trim() === "" ? text.replaceAll("\n", "\u21b5").replaceAll(" ", "\u2423") || "\u2205" : text.replaceAll("\n", "\u21b5");
const made = (kind, text, parent) => {
  const one = document.createElement(kind);
  if (text !== undefined) one.textContent = text;
  if (parent) parent.append(one);
  return one;
};

// The prompt.

const asking = new Set(looks.queries || []);
function drawTokens() {
  const host = at("tokens");
  let run = null;
  const answer = made("button", `answer: ${seen(data.answer.text)}`, host);
  answer.type = "button";
  answer.dataset.position = "answer";
  answer.title = "the answer: read off at the prompt's last position";
  answer.setAttribute("aria-label", `${JSON.stringify(data.answer.text)}, ${answer.title}`);
  answer.addEventListener("click", () => choose({ token: null, map: "attention" }));
  made("span", "prompt:", host).className = "plain";
  for (const [position, text, image] of data.words) {
    if (image >= 0) {
      if (!run || run.image !== image) run = { image, count: 0, at: made("span", "", host) };
      run.count += 1;
      run.at.textContent = `picture ${image + 1}: ${run.count} token${run.count > 1 ? "s" : ""}`;
      continue;
    }
    run = null;
    const button = made("button", seen(text), host);
    button.type = "button";
    button.dataset.position = position;
    const off = !asking.has(position);
    if (off) button.setAttribute("aria-disabled", "true");
    button.title = `position ${position}` + (off ? ": no attention of it to a picture is kept; it stands before the pictures, or the page had no room" : "");
    button.setAttribute("aria-label", `${JSON.stringify(text)}, ${button.title}`);
    button.addEventListener("click", () => { if (!off) choose({ token: position, map: "attention" }); });
  }
  const buttons = [...host.querySelectorAll("button")];
  buttons.forEach((one) => { one.tabIndex = one === answer ? 0 : -1; });
  host.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const here = buttons.indexOf(document.activeElement);
    const next = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : step === undefined ? -1 : here + step;
    if (here < 0 || next < 0 || next >= buttons.length) return;
    event.preventDefault();
    buttons[here].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  });
}

// The pictures.

const stages = [];
function drawSheets() {
  data.sheets.forEach((sheet, number) => {
    const figure = made("figure", undefined, at("sheets"));
    figure.className = "sheet";
    made("figcaption", sheet.title + (sheet.note ? ` (${sheet.note})` : ""), figure);
    const stage = made("div", undefined, figure);
    stage.className = sheet.over ? "stage" : "stage bare";
    stage.tabIndex = 0;
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-roledescription", "map of the picture");
    stage.setAttribute("aria-label", `${sheet.title}; arrow keys move from place to place, Enter holds one`);
    const [west, north, east, south] = sheet.view;
    const width = east - west, height = south - north;
    stage.style.maxWidth = `${Math.min(30 * width / height, sheet.over ? 34 : 2.6 * width)}rem`;
    const picture = data.pictures[sheet.image];
    if (sheet.over) {
      const image = made("img", undefined, stage);
      image.src = picture.src;
      image.alt = "";
      image.style.left = `${-100 * west / width}%`;
      image.style.top = `${-100 * north / height}%`;
      image.style.width = `${100 * picture.width / width}%`;
      image.style.height = `${100 * picture.height / height}%`;
    }
    const canvas = made("canvas", undefined, stage);
    canvas.width = 900;
    canvas.height = Math.max(60, Math.round(900 * height / width));
    const pen = canvas.getContext("2d"), across = 900 / width, down = canvas.height / height;
    const boxed = ([left, top, right, bottom]) => [(left - west) * across, (top - north) * down, (right - left) * across, (bottom - top) * down];
    stages.push({ sheet, stage, canvas, pen, boxed });
    const under = (event) => {
      const held = canvas.getBoundingClientRect();
      const x = west + (event.clientX - held.left) / held.width * width, y = north + (event.clientY - held.top) / held.height * height;
      const place = sheet.boxes.findIndex(([left, top, right, bottom]) => left <= x && x < right && top <= y && y < bottom);
      return place < 0 ? null : sheet.cells[place];
    };
    stage.addEventListener("pointermove", (event) => { if (!state.held && event.pointerType === "mouse") point(under(event)); });
    stage.addEventListener("click", (event) => {
      const cell = under(event);
      choose({ cell, held: cell !== null && !(state.held && state.cell === cell) });
    });
    stage.addEventListener("keydown", (event) => moved(event, sheet));
    stage.addEventListener("focus", () => {
      if (stage.matches(":focus-visible") && (state.cell === null || spots.get(state.cell).number !== number)) choose({ cell: strongest(sheet), held: false }, true);
    });
  });
}

const middle = ([left, top, right, bottom]) => [(left + right) / 2, (top + bottom) / 2];
function strongest(sheet) {
  const values = mapped(state.block);
  return sheet.cells.reduce((best, cell) => values && values[cell] > values[best] ? cell : best, sheet.cells[0]);
}

function moved(event, sheet) {
  const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
  if (event.key === "Escape") return choose({ cell: null, held: false });
  if ((event.key === "Enter" || event.key === " ") && state.cell !== null) {
    event.preventDefault();
    return choose({ held: !state.held }, true);
  }
  if (!step) return undefined;
  event.preventDefault();
  if (state.cell === null || spots.get(state.cell).sheet !== sheet) return choose({ cell: sheet.cells[0] }, true);
  const [x, y] = middle(spots.get(state.cell).box);
  let best = state.cell, least = Infinity;
  sheet.cells.forEach((cell, place) => {
    const [far, low] = middle(sheet.boxes[place]);
    const along = (far - x) * step[0] + (low - y) * step[1], aside = Math.abs((far - x) * step[1]) + Math.abs((low - y) * step[0]);
    if (along > 1e-6 && along + 4 * aside < least) [best, least] = [cell, along + 4 * aside];
  });
  return choose({ cell: best }, true);
}

const EDGES = [["rgb(0,0,0)", 7], ["rgb(255,255,255)", 3]];
function paint(values, most) {
  for (const { sheet, pen, canvas, boxed } of stages) {
    pen.clearRect(0, 0, canvas.width, canvas.height);
    sheet.cells.forEach((cell, place) => {
      if (!values || !most || !values[cell]) return;
      pen.fillStyle = colour(values[cell] / most);
      pen.fillRect(...boxed(sheet.boxes[place]));
    });
    if (!sheet.over) {
      pen.strokeStyle = "rgb(150,150,150)";
      pen.lineWidth = 1;
      for (const box of sheet.boxes) pen.strokeRect(...boxed(box));
    }
    const spot = state.cell === null ? null : spots.get(state.cell);
    if (!spot || spot.sheet !== sheet) continue;
    for (const [ink, wide] of EDGES) {
      pen.strokeStyle = ink;
      pen.lineWidth = wide;
      pen.strokeRect(...boxed(spot.box));
    }
  }
}

const UNITS = { attention: "share of its attention", lens: "probability of the answer", effect: "share of the clean answer restored" };
function paintLegend(most) {
  const canvas = at("legend"), pen = canvas.getContext("2d"), signed = state.map === "effect";
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (let x = 0; x < canvas.width && most; x++) {
    pen.fillStyle = colour(signed ? 2 * x / canvas.width - 1 : x / canvas.width);
    pen.fillRect(x, 0, 1, canvas.height);
  }
  at("low").textContent = most ? written(signed ? -most : 0) : "";
  at("high").textContent = most ? written(most) : "";
  at("unit").textContent = most ? UNITS[state.map] : "nothing to show";
  canvas.setAttribute("aria-label", `colours from ${at("low").textContent} to ${at("high").textContent}, ${UNITS[state.map]}`);
}

// In words.

const who = () => state.token === null ? "the answer" : `token ${JSON.stringify(data.words.find(([position]) => position === state.token)[1])} at position ${state.token}`;
const headName = () => state.head < 0 ? "mean over heads" : `head ${state.head}`;
const shown = () => state.map === "attention" ? `Attention of ${who()}, block ${state.block}, ${headName()}` : state.map === "lens" ? `How much a place reads as the answer behind block ${state.block}` : `Effect of the stream that enters block ${state.block}`;
function named(cell) {
  const { sheet, place } = spots.get(cell);
  return `place ${place + 1}${data.sheets.length > 1 ? ` of ${sheet.title.split(":")[0]}` : ""}`;
}
function pixels(cell) {
  const { sheet, box } = spots.get(cell);
  return sheet.over ? `${box[0]} to ${box[2]}, ${box[1]} to ${box[3]}` : "no box in the picture";
}

function tell(values) {
  const says = at("says");
  says.textContent = "";
  if (!values) {
    made("b", `Nothing to show: ${missing()}`, says);
    return;
  }
  const sum = values.reduce((whole, one) => whole + one, 0);
  const where = `the picture${data.pictures.length > 1 ? "s" : ""}`;
  const share = beside ? `this block attends to nothing but ${where}` : `${(100 * sum).toFixed(1)} % of it goes to ${where}, the rest to other tokens`;
  const more = state.map === "attention" ? `: ${share}.` : ".";
  says.textContent = shown() + more;
}

function listTop(values) {
  const table = at("top"), body = table.tBodies[0];
  table.caption.textContent = values ? `Strongest places: ${shown()}` : "";
  body.textContent = "";
  table.hidden = !values;
  if (!values) return;
  const order = [...spots.keys()].sort((one, two) => Math.abs(values[two]) - Math.abs(values[one])).slice(0, 8);
  order.forEach((cell, place) => {
    const line = made("tr", undefined, body);
    for (const text of [place + 1, named(cell), pixels(cell), written(values[cell])]) made("td", text, line);
  });
}

// One place: by block and head, and by block.

let gridded = null;
function paintGrid() {
  const canvas = at("grid"), pen = canvas.getContext("2d");
  const counts = Array.from({ length: blocks }, (_, block) => headsOf(block, state.token));
  const wide = Math.max(1, ...counts);
  at("grid-title").textContent = `Attention to this place, by block (down) and head (across), of ${who()}`;
  if (!attention) { canvas.hidden = true; at("grid-says").textContent = looks.reason; return; }
  const margin = 34, step = Math.max(8, Math.min(26, Math.floor(440 / wide))), tall = Math.max(8, Math.min(22, Math.floor(520 / blocks)));
  canvas.width = margin + wide * step + 4;
  canvas.height = 18 + blocks * tall + 4;
  gridded = { margin, step, tall, counts };
  const held = counts.map((_, block) => given(state.token, block, state.cell));
  let best = [0, 0, -1];
  held.forEach((own, block) => own.forEach((value, head) => { if (value > best[2]) best = [block, head, value]; }));
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const thin = Math.ceil(14 / tall), sparse = Math.ceil(22 / step);
  for (let block = 0; block < blocks; block++) {
    const top = 18 + block * tall;
    pen.fillStyle = "rgb(60,60,60)";
    pen.textAlign = "right";
    if (block % thin === 0) pen.fillText(block, margin - 6, top + tall / 2);
    if (!counts[block]) {
      pen.fillStyle = "rgb(225,225,225)";
      pen.fillRect(margin, top, wide * step, tall - 1);
      pen.fillStyle = "rgb(90,90,90)";
      pen.textAlign = "left";
      if (tall >= 12) pen.fillText("no pattern", margin + 4, top + tall / 2);
    }
    held[block].forEach((value, head) => {
      pen.fillStyle = best[2] > 0 ? colour(value / best[2]) : "white";
      pen.fillRect(margin + head * step, top, step - 1, tall - 1);
    });
  }
  pen.fillStyle = "rgb(60,60,60)";
  pen.textAlign = "center";
  if (wide > 1 || counts.some((one) => one > 1)) for (let head = 0; head < wide; head += sparse) pen.fillText(head, margin + (head + 0.5) * step, 9);
  pen.strokeStyle = "black";
  pen.lineWidth = 2;
  pen.strokeRect(margin + Math.max(0, state.head) * step - 1, 18 + state.block * tall - 1, (state.head < 0 ? wide : 1) * step, tall);
  const most = best[2] > 0 ? `the most is ${written(best[2])}, block ${best[0]}, ${wide === 1 ? "mean over heads" : `head ${best[1]}`}` : "no head attends to it";
  at("grid-says").textContent = `Darkest: ${most}. The line marks what the picture shows; a click chooses a block and head.`;
  canvas.setAttribute("aria-label", `${at("grid-title").textContent}: ${most}`);
}

function listBlocks() {
  const body = at("by-block").tBodies[0];
  body.textContent = "";
  const most = patched ? patched.reduce((high, one) => Math.max(high, Math.abs(one)), 0) : 0;
  for (let block = 0; block < blocks; block++) {
    const line = made("tr", undefined, body);
    if (block === state.block) line.className = "now";
    made("th", block, line).scope = "row";
    const mean = averaged(given(state.token, block, state.cell));
    made("td", mean === null ? "no pattern" : written(mean), line);
    const index = words ? ranked(lens.layers, block) : -1;
    const read = index < 0 ? [] : Array.from({ length: lens.top }, (_, place) => (index * cells + state.cell) * lens.top + place);
    const told = made("td", read.length ? undefined : "\u2013", line);
    for (const spot of read) made("span", `${seen(lens.words[words.tokens[spot]])} ${words.probabilities[spot].toFixed(2)}`, told);
    made("td", index < 0 ? "\u2013" : written(words.watched[index * cells + state.cell]), line);
    const effect = taken(patched, effects.layers, block);
    const cell = made("td", effect ? written(effect[state.cell]) : "\u2013", line);
    if (!effect || !most) continue;
    const meter = made("span", undefined, cell);
    meter.className = effect[state.cell] < 0 ? "meter below" : "meter";
    meter.style.width = `${(2.5 * Math.abs(effect[state.cell]) / most).toFixed(2)}rem`;
  }
}

function describe() {
  const none = state.cell === null;
  at("details").hidden = none;
  at("place").textContent = none ? "No place chosen" : `${named(state.cell)[0].toUpperCase()}${named(state.cell).slice(1)}${state.held ? " (held)" : ""}`;
  if (none) return;
  const box = spots.get(state.cell).sheet.over ? `Pixels ${pixels(state.cell)}. ` : "";
  at("place-hint").textContent = `${box}Enter, a click or a tap holds a place; Escape lets it go.`;
  paintGrid();
  listBlocks();
}

// Putting it together.

function point(cell) {
  if (cell !== null && cell !== state.cell) choose({ cell });
}

let now = null, most = 0;
function choose(change, aloud) {
  Object.assign(state, change);
  if (Object.keys(change).some((part) => part !== "cell" && part !== "held") || !Object.keys(change).length) remap();
  paint(now, most);
  describe();
  if (aloud && state.cell !== null) at("live").textContent = `${named(state.cell)}: ${now ? written(now[state.cell]) : "no value"} ${UNITS[state.map]}${state.held ? ", held" : ""}`;
}

function remap() {
  const heads = Math.max(0, ...Array.from({ length: blocks }, (_, block) => headsOf(block, state.token)));
  const slider = at("head");
  slider.max = heads > 1 ? heads - 1 : -1;
  slider.disabled = heads < 2;
  if (state.head > slider.max) state.head = -1;
  slider.value = state.head;
  slider.setAttribute("aria-valuetext", headName());
  at("block").value = state.block;
  at("block").setAttribute("aria-valuetext", `block ${state.block} of ${blocks}`);
  at("block-now").textContent = `${state.block} (0 to ${blocks - 1})`;
  at("head-now").textContent = heads < 2 ? "mean, all that is kept" : state.head < 0 ? `mean (or 0 to ${heads - 1})` : `${state.head} (0 to ${heads - 1})`;
  document.querySelector(`input[name=map][value=${state.map}]`).checked = true;
  for (const button of at("tokens").querySelectorAll("button")) {
    const own = button.dataset.position === "answer" ? state.token === null : Number(button.dataset.position) === state.token;
    button.setAttribute("aria-pressed", own);
  }
  now = mapped(state.block);
  most = now ? limit(now) : 0;
  paintLegend(most);
  tell(now);
  listTop(now);
}

drawTokens();
drawSheets();
at("block").addEventListener("input", (event) => choose({ block: Number(event.target.value) }));
at("head").addEventListener("input", (event) => choose({ head: Number(event.target.value) }));
for (const one of document.querySelectorAll("input[name=map]")) one.addEventListener("change", () => choose({ map: one.value }));
for (const one of document.querySelectorAll("input[name=scale]")) one.addEventListener("change", () => choose({ scale: one.value }));
at("own").addEventListener("change", (event) => at("sheets").classList.toggle("own", event.target.checked));
at("grid").addEventListener("click", (event) => {
  const held = at("grid").getBoundingClientRect(), zoom = at("grid").width / held.width;
  const head = Math.floor(((event.clientX - held.left) * zoom - gridded.margin) / gridded.step);
  const block = Math.floor(((event.clientY - held.top) * zoom - 18) / gridded.tall);
  if (block < 0 || block >= blocks) return;
  choose({ block, head: head >= 0 && head < gridded.counts[block] && gridded.counts[block] > 1 ? head : -1, map: "attention" });
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose({ cell: null, held: false }); });
choose({});
})();
