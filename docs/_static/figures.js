// Figures get a box of their own, which scrolls on narrow screens instead of shrinking the text.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".bd-article img")) {
    if (image.closest(".sphx-glr-thumbcontainer")) continue;
    const box = document.createElement("div");
    box.className = "figure-box";
    box.tabIndex = 0;
    image.replaceWith(box);
    box.append(image);
    // What is beyond the edge would not be missed where a panel ends there.
    new ResizeObserver(() =>
      box.classList.toggle("wide", image.getBoundingClientRect().width > box.clientWidth + 1),
    ).observe(image);
  }
});
