// Draws the plots from the JSON beside them, in the colours of the page, and again when these change.
(function () {
  "use strict";

  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const figures = Array.from(document.querySelectorAll("script[data-plot]"), (source) => ({
    target: document.getElementById(source.dataset.plot),
    figure: JSON.parse(source.textContent),
  }));

  // The value of every CSS variable that a colour names.
  function inColours(value, style) {
    if (typeof value === "string") {
      return value.replace(/^var\((--[a-z-]+)\)$/, (_, name) => style.getPropertyValue(name).trim());
    }
    if (Array.isArray(value)) {
      return value.map((item) => inColours(item, style));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inColours(item, style)]));
    }
    return value;
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const drawn = figures.map(({ target, figure }) => {
      const { data, layout } = inColours(figure, style);
      return Plotly.react(target, data, layout, config);
    });
    return Promise.all(drawn).then(() => {
      document.documentElement.dataset.plotsDrawn = String(drawn.length);
    });
  }

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
