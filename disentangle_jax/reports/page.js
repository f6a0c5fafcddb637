"use strict";
// The contents list is open on wide screens, where it stands beside the page.
for (const list of document.querySelectorAll("nav details"))
  list.open = matchMedia("(min-width: 70rem)").matches;

// A click shows an image as wide as the window, or wider, and scrolls it; Escape or
// another click closes it.
const large = document.body.appendChild(document.createElement("dialog"));
large.onclick = () => large.close();
for (const image of document.querySelectorAll("main img")) {
  image.tabIndex = 0;
  image.title = "Click to enlarge";
  image.onclick = () => {
    large.replaceChildren(Object.assign(new Image(), {src: image.src, alt: image.alt}));
    large.showModal();
  };
  image.onkeydown = event => { if (event.key === "Enter") image.click(); };
}

// Cells that begin with a number are sorted as numbers; dashes come last.
const number = text => parseFloat(text.replace("−", "-"));
const empty = text => /^[–-]?$/.test(text);

function compare(a, b) {
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  const [x, y] = [number(a), number(b)];
  return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y;
}

function sort(table, column, head) {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const text = row => row.cells[column].textContent.trim();
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const order = compare(text(a), text(b));
    return down && !empty(text(a)) && !empty(text(b)) ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

function csv(table) {
  const cell = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const line = row => [...row.cells].map(c => cell(c.textContent.trim())).join(",");
  return [...table.rows].map(line).join("\r\n") + "\r\n";
}

for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    button.onclick = () => sort(table, column, head);
    head.append(button);
  });
  const save = document.createElement("button");
  save.className = "download";
  save.textContent = "Download CSV";
  save.onclick = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(table)], {type: "text/csv"}));
    link.download = `${table.closest("section")?.id || "table"}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  table.parentElement.after(save);
}
