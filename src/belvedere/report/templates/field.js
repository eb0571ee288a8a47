"use strict";
(() => {
  const table = document.getElementById("field");
  const form = document.getElementById("filters");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[1].cells];
  const stacks = [...table.tHead.rows[0].querySelectorAll("[data-stack]")];
  const first = heads.findIndex(head => head.classList.contains("value"));
  const values = heads.slice(first).map(head => head.dataset.key);
  const reasons = [...document.querySelectorAll("ol > li[id^=reason-]")].map(item => item.textContent.toLowerCase());
  const rows = [...body.rows].map(row => ({
    row,
    name: row.dataset.name,
    missing: row.classList.contains("missing"),
    why: row.textContent.toLowerCase(),
    cells: [...row.querySelectorAll("td.cell")],
  }));
  const ranks = ["served", "recomputed", "some", "lacking"];
  const names = [...form.elements].map(field => field.name).filter(Boolean);
  let order = { sort: heads[0].dataset.key, descending: false };

  const said = cell => cell.dataset.reasons.split(" ").filter(Boolean).map(number => reasons[number - 1]).join(" ");
  const isHit = (cell, wanted) =>
    (!wanted.state || cell.dataset.kind === wanted.state) && (!wanted.reason || said(cell).includes(wanted.reason));

  /** Hide the columns and rows that are not asked for, and outline the cells that are. */
  function filter() {
    const wanted = Object.fromEntries(names.map(name => [name, form.elements[name].value.trim()]));
    wanted.reason = wanted.reason.toLowerCase();
    const kept = values.map(value => value.toLowerCase().includes(wanted.value.toLowerCase()));
    heads.slice(first).forEach((head, at) => { head.hidden = !kept[at]; });
    for (const stack of stacks) {
      const own = heads.filter(head => head.dataset.stack === stack.dataset.stack && !head.hidden).length;
      stack.hidden = !own;
      stack.colSpan = Math.max(1, own);
    }
    const byCell = Boolean(wanted.state || wanted.reason);
    let shown = 0;
    for (const { row, name, missing, why, cells } of rows) {
      const hits = cells.filter((cell, at) => {
        cell.hidden = !kept[at];
        const hit = byCell && kept[at] && isHit(cell, wanted);
        cell.classList.toggle("hit", hit);
        return hit;
      });
      const asMissing = missing && (!wanted.state || wanted.state === "missing") && why.includes(wanted.reason);
      const inPart = ["tower", "text"].every(part => !wanted[part] || row.dataset[part] === wanted[part]);
      row.hidden = !(inPart && name.includes(wanted.type.toLowerCase()) && (!byCell || hits.length || asMissing));
      shown += !row.hidden;
      if (missing) row.querySelector(".why").colSpan = first - 3 + Math.max(1, kept.filter(Boolean).length);
    }
    const columns = kept.filter(Boolean).length;
    document.getElementById("shown").textContent =
      `${shown} of ${rows.length} types, ${columns} of ${values.length} values`;
  }

  /** What a row is sorted by; `null`, which comes last both ways, where it has nothing there. */
  function key({ row, missing, cells }, at) {
    if (missing && at > 2) return null;
    if (at < 4) return row.cells[at].textContent.trim() || null;
    return at < first ? Number(row.cells[at].textContent) : ranks.indexOf(cells[at - first].dataset.kind);
  }

  function sort() {
    const at = Math.max(0, heads.findIndex(head => head.dataset.key === order.sort));
    const keyed = rows.map(one => [key(one, at), one]);
    const compared = (one, other) => typeof one === "number" ? one - other : (one > other) - (one < other);
    keyed.sort(([one, left], [other, right]) => {
      if (one === null || other === null) return (one === null) - (other === null) || compared(left.name, right.name);
      return (order.descending ? -1 : 1) * compared(one, other) || compared(left.name, right.name);
    });
    body.append(...keyed.map(([, one]) => one.row));
    const way = order.descending ? "descending" : "ascending";
    heads.forEach((head, place) => head.setAttribute("aria-sort", place === at ? way : "none"));
  }

  /** The filters and the order that an address asks for; one that names a reason leaves them as they are. */
  function read() {
    const asked = location.hash.slice(1);
    if (/^reason(s|-\d+)$/.test(asked)) return;
    const given = new URLSearchParams(asked);
    names.forEach(name => { form.elements[name].value = given.get(name) || ""; });
    order = { sort: given.get("sort") || heads[0].dataset.key, descending: given.get("order") === "descending" };
    sort();
    filter();
  }

  function write() {
    const held = names.map(name => [name, form.elements[name].value.trim()]);
    if (order.sort !== heads[0].dataset.key || order.descending) held.push(["sort", order.sort]);
    if (order.descending) held.push(["order", "descending"]);
    history.replaceState(null, "", `#${new URLSearchParams(held.filter(([, value]) => value))}`);
  }

  form.addEventListener("input", () => { filter(); write(); });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { filter(); write(); }));
  table.tHead.addEventListener("click", event => {
    const head = event.target.closest("button") && event.target.closest("th");
    if (!head) return;
    order = { sort: head.dataset.key, descending: order.sort === head.dataset.key && !order.descending };
    sort();
    write();
  });
  addEventListener("hashchange", read);
  form.hidden = false;
  read();
})();
