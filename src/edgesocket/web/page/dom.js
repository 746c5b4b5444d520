// The few things this page needs of the DOM. Nothing here takes HTML as text, so nothing from a job can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element. Attributes beginning with "on" are listeners; children are nodes or text. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** One of the symbols of index.html. It says nothing to a screen reader: put the word beside it. */
export function icon(name, className = "icon") {
  return svg(
    "svg",
    { class: className, viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("use", { href: `#i-${name}` }),
  );
}

/** Show another symbol in an icon. */
export function setIcon(node, name) {
  setAttr(node.firstChild, "href", `#i-${name}`);
}

/** Set the text of a node, and touch it only when it changes: a selection in it survives. */
export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Set an attribute, or remove it with null, and touch it only when it changes. */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

/** Show or hide. */
export function setShown(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/**
 * Keep the children of `parent` in step with `items`, in their order.
 *
 * `make(item)` returns {node, update(item)}; the same key keeps its node, so focus and scrolling stay where they are.
 * Returns the views by key.
 */
export function keyed(parent, items, keyOf, make) {
  const before = parent.views ?? new Map();
  const after = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const view = before.get(key) ?? make(item);
    view.update(item);
    after.set(key, view);
  }
  for (const [key, view] of before) if (!after.has(key)) view.node.remove();
  let place = parent.firstElementChild;
  for (const { node } of after.values()) {
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  parent.views = after;
  return after;
}

/** A card with a heading. `id` names the heading for the region. */
export function card(title, id, ...children) {
  const heading = el("h2", { id }, title);
  return el(
    "section",
    { class: `card card-${id}`, "aria-labelledby": id },
    el("div", { class: "card-head" }, heading),
    ...children,
  );
}
