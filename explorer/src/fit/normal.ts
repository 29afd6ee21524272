/** The normal distribution. */

/** Φ(x), by W. J. Cody's rational approximations of erfc, to full precision. */
export function ndtr(x: number): number {
  const z = Math.abs(x) / Math.SQRT2;
  const tail = 0.5 * erfc(z);
  return x > 0 ? 1 - tail : tail;
}

const P1 = [3.1611237438705656, 113.864154151050156, 377.485237685302021, 3209.37758913846947, 0.185777706184603153];
const Q1 = [23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062];
const P2 = [
  0.564188496988670089, 8.88314979438837594, 66.1191906371416295, 298.635138197400131, 881.95222124176909, 1712.04761263407058,
  2051.07837782607147, 1230.33935479799725, 2.15311535474403846e-8,
];
const Q2 = [
  15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019, 3290.79923573345963, 4362.61909014324716,
  3439.36767414372164, 1230.33935480374942,
];
const P3 = [
  0.305326634961232344, 0.360344899949804439, 0.125781726111229246, 0.0160837851487422766, 6.58749161529837803e-4,
  0.0163153871373020978,
];
const Q3 = [2.56852019228982242, 1.87295284992346047, 0.527905102951428412, 0.0605183413124413191, 0.00233520497626869185];

/** erfc(y) for y ≥ 0. */
function erfc(y: number): number {
  if (y <= 0.46875) {
    const t = y * y;
    let n = P1[4]! * t, d = t;
    for (let i = 0; i < 3; i++) {
      n = (n + P1[i]!) * t;
      d = (d + Q1[i]!) * t;
    }
    return 1 - (y * (n + P1[3]!)) / (d + Q1[3]!);
  }
  if (y > 26.5) return 0;
  let result: number;
  if (y <= 4) {
    let n = P2[8]! * y, d = y;
    for (let i = 0; i < 7; i++) {
      n = (n + P2[i]!) * y;
      d = (d + Q2[i]!) * y;
    }
    result = (n + P2[7]!) / (d + Q2[7]!);
  } else {
    const t = 1 / (y * y);
    let n = P3[5]! * t, d = t;
    for (let i = 0; i < 4; i++) {
      n = (n + P3[i]!) * t;
      d = (d + Q3[i]!) * t;
    }
    result = (t * (n + P3[4]!)) / (d + Q3[4]!);
    result = (1 / Math.sqrt(Math.PI) - result) / y;
  }
  const whole = Math.trunc(y * 16) / 16, rest = (y - whole) * (y + whole);
  return Math.exp(-whole * whole) * Math.exp(-rest) * result;
}

/** The quantile Φ⁻¹(p), by Newton's method on Φ. */
export function ndtri(p: number): number {
  let x = 0;
  for (let i = 0; i < 100; i++) {
    const tail = Math.min(p, 1 - p), at = ndtr(-Math.abs(x));
    const step = (tail - at) / (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI));
    const next = -Math.abs(x) + Math.max(-1, Math.min(1, step));
    const moved = Math.abs(next - -Math.abs(x));
    x = next;
    if (moved < 1e-16 * (1 + Math.abs(x))) break;
  }
  return p < 0.5 ? -Math.abs(x) : Math.abs(x);
}
