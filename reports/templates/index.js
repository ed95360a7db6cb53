"use strict";
// Hides the rows that do not have all words of the filter, which is also the part of the address after "#".
(function () {
  const input = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const rows = [...document.querySelectorAll("#runs tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word);
    const found = rows.filter(({ row, text }) => !(row.hidden = !words.every((word) => text.includes(word))));
    shown.textContent = words.length ? found.length + " of " + rows.length : "";
  };
  input.addEventListener("input", apply);
  try {
    input.value = decodeURIComponent(location.hash.slice(1));
  } catch {
    input.value = "";
  }
  apply();
})();
