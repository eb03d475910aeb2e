// Appended to a copy of the page by tests/page.rs. Tells the page around it what is wrong with what the browser has laid out.
'use strict';
addEventListener('load', () => {
  const wrong = [];
  const box = (element) => element.getBoundingClientRect();
  const within = (a, b) => a.left >= b.left - 0.5 && a.right <= b.right + 0.5 && a.top >= b.top - 0.5 && a.bottom <= b.bottom + 0.5;
  const meet = (a, b) => a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
  const plots = [...document.querySelectorAll('svg.plot')];
  for (const [number, plot] of plots.entries()) {
    const frame = box(plot);
    const say = (what) => wrong.push(`plot ${number} (${plot.getAttribute('aria-label')}): ${what}`);
    if (frame.width < 200 || frame.height < 60) say(`is only ${frame.width} by ${frame.height}`);
    const marks = [...plot.querySelectorAll('.mark')];
    if (marks.length === 0 || marks.length !== Number(plot.dataset.marks)) say(`has ${marks.length} marks, not ${plot.dataset.marks}`);
    const shapes = marks.flatMap((mark) => [...mark.querySelectorAll('path, circle, polygon')]);
    for (const shape of shapes) {
      const place = box(shape);
      if (!within(place, frame)) say(`a mark is outside: ${shape.outerHTML}`);
      if (place.width === 0 && place.height === 0 && shape.closest('.mark').childElementCount < 3) say(`a mark cannot be seen: ${shape.outerHTML}`);
    }
    const texts = [...plot.querySelectorAll('text')].map((text) => ({ said: text.textContent, place: box(text) }));
    if (texts.length < 4) say('has no axes');
    for (const [place, text] of texts.entries()) {
      if (!within(text.place, frame)) say(`"${text.said}" is cut off`);
      if (text.place.height < 10) say(`"${text.said}" is too small to read`);
      for (const other of texts.slice(place + 1)) if (meet(text.place, other.place)) say(`"${text.said}" is over "${other.said}"`);
      if (shapes.some((shape) => meet(box(shape), text.place))) say(`a mark is over "${text.said}"`);
    }
  }
  for (const legend of document.querySelectorAll('.legend')) {
    const looks = [...legend.querySelectorAll('svg.key')].map((key) => key.innerHTML.replace(/class="s\d+"/, ''));
    if (new Set(looks).size !== looks.length) wrong.push(`without colour two are alike: ${legend.textContent}`);
  }
  if (document.querySelectorAll('figure').length !== plots.length) wrong.push('a figure has no plot');
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) wrong.push(`the page is ${wide} wide in a window of ${innerWidth}`);
  for (const element of document.querySelectorAll('body *')) {
    if (!element.closest('.scroll > *, svg') && box(element).right > innerWidth + 0.5) wrong.push(`goes over the edge: ${element.outerHTML.slice(0, 80)}`);
  }
  parent.postMessage({ plots: plots.length, width: innerWidth, wrong }, '*');
});
