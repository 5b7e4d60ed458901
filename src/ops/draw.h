/* Random numbers of sampling, the same on every device: number i of a draw is word i mod 4 of Philox4x32-10 of the
 * counter (i / 4, row, site, step), whose upper 24 bits and a half make w in (0, 1). −ln(1 − w) is an exponential
 * random number; near 0, where the largest scores come from, by its series, as a logarithm near 1 has few right digits.
 * The including file defines AORTA_DRAW_FUNCTION and aorta_draw_log. */
#ifndef AORTA_OPS_DRAW_H
#define AORTA_OPS_DRAW_H

AORTA_DRAW_FUNCTION float aorta_draw_uniform(unsigned word) {
    return ((float)(word >> 8) + 0.5f) * 5.9604644775390625e-8f; /* 2^-24 */
}

AORTA_DRAW_FUNCTION float aorta_draw_exponential(unsigned word) {
    const float w = aorta_draw_uniform(word);
    if (w < 0.03125f) return w * (1.0f + w * (0.5f + w * (0.333333333f + w * (0.25f + w * 0.2f))));
    return -aorta_draw_log(1.0f - w);
}

#endif
