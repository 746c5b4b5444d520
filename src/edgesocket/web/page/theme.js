// Light, dark or as the system says; kept in this browser. A classic script, so that it runs before the first paint.
(() => {
  "use strict";
  const KEY = "edgesocket.theme";
  const ORDER = ["auto", "light", "dark"];
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden here: the theme then lasts as long as the page
    }
  };
  let theme = ORDER.includes(read()) ? read() : "auto";
  const show = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  show();
  window.edgesocketTheme = {
    get current() {
      return theme;
    },
    next() {
      theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // see read()
      }
      show();
      return theme;
    },
  };
})();
