// Drawing: sprites, goals, arrows, the agent's pictures, maps and masks. Frame coordinates: [0, 1], y up.

const SLOT_COLOURS = [ // the first is the background's
  [60, 60, 60], [230, 158, 0], [87, 181, 232], [0, 158, 115], [240, 227, 66], [0, 115, 179], [214, 94, 0], [204, 120, 166],
];
// Stops of cividis, which people see alike whether or not they tell red from green.
const CIVIDIS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
export const REACH = 0.125; // the farthest push along an axis

let outlines = {};
export const setOutlines = (given) => { outlines = given; };

export function heat(value) {
  const place = Math.min(Math.max(value, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(place), CIVIDIS.length - 2);
  return CIVIDIS[low].map((c, i) => Math.round(c + (place - low) * (CIVIDIS[low + 1][i] - c)));
}

// Give a canvas as many pixels as the screen has for it; return its context and its side.
export function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  return { context, side: width, height, ratio };
}

export function rgb(hue, saturation, value) {
  const channel = (n) => {
    const k = (n + hue * 6) % 6;
    return Math.round(255 * (value - value * saturation * Math.max(0, Math.min(k, 4 - k, 1))));
  };
  return `rgb(${channel(5)}, ${channel(3)}, ${channel(1)})`;
}

export function spritePath(sprite, side) {
  const path = new Path2D();
  const angle = (sprite.angle * Math.PI) / 180;
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  for (const [x, y] of outlines[sprite.shape]) {
    const px = (sprite.x + sprite.scale * (c * x - s * y)) * side;
    const py = (1 - sprite.y - sprite.scale * (s * x + c * y)) * side;
    path.lineTo(px, py);
  }
  path.closePath();
  return path;
}

export function drawSprites(context, side, sprites) {
  context.fillStyle = "#000";
  context.fillRect(0, 0, side, side);
  for (const sprite of sprites) {
    context.fillStyle = rgb(sprite.c0, sprite.c1, sprite.c2);
    context.fill(spritePath(sprite, side));
  }
}

export function outlineSprite(context, side, sprite, dashed = false) {
  const path = spritePath(sprite, side);
  context.save();
  context.lineJoin = "round";
  context.setLineDash(dashed ? [side / 60, side / 80] : []);
  context.lineWidth = side / 90;
  context.strokeStyle = "#000";
  context.stroke(path);
  context.lineWidth = side / 160;
  context.strokeStyle = "#fff";
  context.stroke(path);
  context.restore();
}

export function drawArrow(context, side, action, colour = "#fff") {
  const from = [action[0] * side, (1 - action[1]) * side];
  const to = [from[0] + 2 * REACH * (action[2] - 0.5) * side, from[1] - 2 * REACH * (action[3] - 0.5) * side];
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const head = Math.min(side / 28, Math.hypot(to[0] - from[0], to[1] - from[1]) * 0.6);
  for (const [width, style] of [[side / 60, "#000"], [side / 130, colour]]) {
    context.lineWidth = width;
    context.strokeStyle = style;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    for (const turn of [2.6, -2.6]) {
      context.moveTo(...to);
      context.lineTo(to[0] + head * Math.cos(angle + turn), to[1] + head * Math.sin(angle + turn));
    }
    context.stroke();
  }
}

// Where noise carries a sprite: of many equal pushes, 6 in 7 bring its middle within two standard deviations.
export const RING = 2;

export function drawRing(context, side, { x, y, noise, landed }) {
  context.beginPath();
  context.arc(x * side, (1 - y) * side, RING * noise * side, 0, 2 * Math.PI);
  context.fillStyle = "rgba(255, 255, 255, 0.08)";
  context.fill();
  for (const [width, colour] of [[side / 110, "rgba(0, 0, 0, 0.7)"], [side / 220, "#fff"]]) {
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  }
  if (!landed) return;
  context.beginPath();
  context.arc(landed.x * side, (1 - landed.y) * side, side / 90, 0, 2 * Math.PI);
  context.fillStyle = "#fff";
  context.fill();
  context.lineWidth = side / 220;
  context.strokeStyle = "#000";
  context.stroke();
}

export function drawGoal(context, side, [x, y, radius, colour], label = "") {
  const [px, py, r] = [x * side, (1 - y) * side, radius * side];
  const arm = r / Math.SQRT2;
  for (const [width, style] of [[side / 80, "#000"], [side / 180, `rgb(${colour.join(",")})`]]) {
    context.lineWidth = width;
    context.strokeStyle = style;
    context.beginPath();
    context.arc(px, py, r, 0, 2 * Math.PI);
    context.moveTo(px - arm, py - arm);
    context.lineTo(px + arm, py + arm);
    context.moveTo(px - arm, py + arm);
    context.lineTo(px + arm, py - arm);
    context.stroke();
  }
  if (!label) return;
  context.font = `600 ${Math.max(side / 28, 11)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.lineWidth = side / 120;
  context.strokeStyle = "#000";
  context.fillStyle = "#fff";
  const below = py + r + side / 22 > side ? py - r - side / 60 : py + r + side / 24;
  context.strokeText(label, px, below);
  context.fillText(label, px, below);
}

const scratch = document.createElement("canvas");

// Paint pixels [n, n, 4] over a square, enlarged.
export function paint(context, side, pixels, n, smooth = true) {
  scratch.width = scratch.height = n;
  scratch.getContext("2d").putImageData(new ImageData(pixels, n, n), 0, 0);
  context.imageSmoothingEnabled = smooth;
  context.imageSmoothingQuality = "high";
  context.drawImage(scratch, 0, 0, side, side);
}

export function picturePixels(data, n, offset = 0) {
  const pixels = new Uint8ClampedArray(n * n * 4);
  for (let i = 0, j = offset * n * n * 3; i < pixels.length; i += 4, j += 3) {
    pixels.set([data[j], data[j + 1], data[j + 2], 255], i);
  }
  return pixels;
}

export function showPicture(canvas, data, n, offset = 0) {
  const { context, side } = prepare(canvas);
  paint(context, side, picturePixels(data, n, offset), n);
}

export function showDifference(canvas, one, other, n) {
  const { context, side } = prepare(canvas);
  const pixels = new Uint8ClampedArray(n * n * 4);
  for (let i = 0, j = 0; i < pixels.length; i += 4, j += 3) {
    const largest = Math.max(...[0, 1, 2].map((c) => Math.abs(one[j + c] - other[j + c])));
    pixels.set([...heat(largest / 255).map((c) => c * Math.min(1, largest / 40)), 255], i);
  }
  paint(context, side, pixels, n);
}

export function mapPixels(map, alpha) {
  const pixels = new Uint8ClampedArray(map.length * 4);
  map.forEach((value, i) => pixels.set([...heat(value / 255), alpha], 4 * i));
  return pixels;
}

// The slot that holds the background and the first one change colours.
export function slotColour(k, background) {
  const index = k === background ? 0 : k === 0 ? background : k;
  return SLOT_COLOURS[index % SLOT_COLOURS.length];
}

export function maskPixels(masks, n, count, chosen, background) {
  const pixels = new Uint8ClampedArray(n * n * 4);
  for (let p = 0; p < n * n; p++) {
    const colour = [0, 0, 0];
    for (let k = 0; k < count; k++) {
      const weight = masks[k * n * n + p] / 255;
      const slot = slotColour(k, background);
      for (let c = 0; c < 3; c++) colour[c] += weight * slot[c];
    }
    const mine = chosen < 0 ? 1 : masks[chosen * n * n + p] / 255;
    pixels.set([...colour, 130 + 110 * mine], 4 * p);
  }
  return pixels;
}

export function drawProposals(context, side, actions, scores) {
  const low = scores ? Math.min(...scores) : 0;
  const span = scores ? Math.max(Math.max(...scores) - low, 1e-6) : 1;
  const order = actions.map((_, i) => i).sort((a, b) => (scores ? scores[a] - scores[b] : 0));
  for (const i of order) {
    const worth = scores ? (scores[i] - low) / span : 0.6;
    context.beginPath();
    context.arc(actions[i][0] * side, (1 - actions[i][1]) * side, side * (0.004 + 0.009 * worth ** 2), 0, 2 * Math.PI);
    context.fillStyle = `rgb(${heat(scores ? worth : 0.9).join(",")})`;
    context.fill();
    context.lineWidth = side / 500;
    context.strokeStyle = "#000";
    context.stroke();
  }
}

// A learning curve: points [count, value], value within `range`; `others` is drawn behind it, dashed, and so is `level`.
export function drawCurve(canvas, points, range, others = [], level = null) {
  const { context, side, height, ratio } = prepare(canvas);
  const style = getComputedStyle(document.documentElement);
  const pad = 22 * ratio;
  const last = Math.max(10, ...points.map((p) => p[0]), ...others.map((p) => p[0]));
  const place = ([x, y]) => [
    pad + (x / last) * (side - pad - 6 * ratio),
    8 * ratio + (1 - (y - range[0]) / (range[1] - range[0])) * (height - pad - 8 * ratio),
  ];
  context.clearRect(0, 0, side, height);
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.fillStyle = style.getPropertyValue("--soft");
  context.strokeStyle = style.getPropertyValue("--line");
  context.lineWidth = ratio;
  for (const y of level === null ? range : [...range, level]) {
    const height = place([0, y])[1];
    context.setLineDash(y === level ? [2 * ratio, 3 * ratio] : []);
    context.beginPath();
    context.moveTo(pad, height);
    context.lineTo(side, height);
    context.stroke();
    if (y !== level) context.fillText(range[1] === 1 ? `${100 * y}%` : y, 0, height + 4 * ratio);
  }
  context.setLineDash([]);
  context.fillText(`${last}`, side - 30 * ratio, height - 5 * ratio);
  for (const [line, colour, dash] of [[others, "--soft", [4 * ratio, 4 * ratio]], [points, "--accent", []]]) {
    if (!line.length) continue;
    context.setLineDash(dash);
    context.strokeStyle = style.getPropertyValue(colour);
    context.lineWidth = 2 * ratio;
    context.beginPath();
    for (const point of line) context.lineTo(...place(point));
    context.stroke();
    if (line.length === 1) context.strokeRect(...place(line[0]), 1, 1);
  }
  context.setLineDash([]);
}
