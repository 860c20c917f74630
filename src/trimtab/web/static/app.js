// Draws the interactive charts. Strict Content-Security-Policy: no inline style or script, no eval.
"use strict";

const EMBED = {
  actions: false,
  ast: true, // expressions are interpreted, not compiled
  defaultStyle: false, // a style element would be inline
  tooltip: tip,
};

let loading = null;

function vega() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/vega.js";
    script.type = "module";
    script.onload = () => resolve(window.vegaEmbed);
    script.onerror = () => reject(new Error("the chart library did not load"));
    document.head.append(script);
  });
  return loading;
}

// Own tooltip: Vega's own writes a style attribute.
function tip(handler, event, item, value) {
  let box = document.querySelector(".tip");
  if (value === null || value === undefined || value === "") {
    box?.remove();
    return;
  }
  if (!box) {
    box = document.createElement("div");
    box.className = "tip";
    box.setAttribute("role", "tooltip");
    document.body.append(box);
  }
  box.replaceChildren(
    ...Object.entries(typeof value === "object" ? value : { "": value }).map(([name, words]) => {
      const row = document.createElement("div");
      const label = document.createElement("span");
      label.textContent = name;
      row.append(label, String(words));
      return row;
    }),
  );
  const left = Math.min(event.pageX + 14, window.scrollX + document.documentElement.clientWidth - box.offsetWidth - 8);
  box.style.left = `${Math.max(0, left)}px`;
  box.style.top = `${event.pageY + 14}px`;
}

async function draw(place) {
  try {
    const [embed, answer] = await Promise.all([vega(), fetch(place.dataset.chart)]);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const result = await embed(place, await answer.json(), { ...EMBED, renderer: place.dataset.renderer ?? "svg" });
    place.querySelector("svg")?.setAttribute("aria-hidden", "true"); // its place has role and label
    place.dataset.drawn = "yes";
    if (place.dataset.zoom) followZoom(place, result.view);
  } catch (error) {
    const words = document.createElement("p");
    words.className = "muted";
    words.textContent = `Not drawn: ${error.message}`;
    place.replaceChildren(words);
    place.dataset.drawn = "no";
  }
}

// After panning or zooming: the address and the form have the stretch, and its runs come in detail.
function followZoom(place, view) {
  let waiting = 0;
  view.addSignalListener("grid_at", (_, stretch) => {
    clearTimeout(waiting);
    if (stretch?.length === 2) waiting = setTimeout(() => refine(place, view, stretch), 400);
  });
}

async function refine(place, view, stretch) {
  const [since, until] = stretch.map((at) => new Date(at).toISOString().slice(0, 19) + "Z");
  const address = new URL(window.location.href);
  for (const [name, value] of [["since", since], ["until", until]]) {
    address.searchParams.set(name, value);
    for (const field of document.querySelectorAll(`input[name="${name}"]`)) field.value = value;
  }
  window.history.replaceState(null, "", address);
  const answer = await fetch(`${place.dataset.zoom}?${new URLSearchParams({ since, until })}`);
  if (!answer.ok) return;
  const detail = await answer.json();
  await view.data("runs", detail.layer[0].data.values).runAsync();
}

function drawAll(root) {
  for (const place of root.querySelectorAll("[data-chart]:not([data-drawn])")) draw(place);
}

// The server tells when the store has changed: an overview is loaded again, another page says so.
// A page that nobody looks at holds no connection: browsers have only six for one server.
let stream = null;
let seen = null;

function follow() {
  const address = document.body.dataset.live;
  if (!address || document.hidden === (stream === null)) return;
  if (document.hidden) {
    stream.close();
    stream = null;
    return;
  }
  stream = new EventSource(address);
  stream.addEventListener("state", (event) => {
    if (seen !== null && event.data !== seen) changed();
    seen = event.data;
  });
}

function changed() {
  const live = document.getElementById("live");
  if (live) window.htmx.trigger(live, "changed");
  else document.getElementById("news")?.removeAttribute("hidden");
}

document.addEventListener("visibilitychange", follow);
follow();
drawAll(document);
document.addEventListener("htmx:afterSettle", (event) => drawAll(event.target));
