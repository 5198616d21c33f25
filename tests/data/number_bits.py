"""Prints the cases of number_spec.lua: text, bits of the nearest float32, bits of the nearest float64 (ties to even)."""
import random
from fractions import Fraction


def round_to(value, bits, low, high, bias, width):
    """IEEE bits of the fraction `value` with `bits` of significand, exponents from low to high."""
    sign, value = (1, -value) if value < 0 else (0, value)
    if value == 0:
        return sign << (width - 1)
    exponent = 0
    while value >= 2 ** (exponent + 1):
        exponent += 1
    while value < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, low)
    scaled = value / Fraction(2) ** (exponent - bits + 1)
    whole, rest = scaled.numerator // scaled.denominator, scaled - scaled.numerator // scaled.denominator
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
        whole += 1
    if whole == 2**bits:
        whole, exponent = whole // 2, exponent + 1
    if exponent > high:
        return None
    if whole < 2 ** (bits - 1):
        return sign << (width - 1) | whole
    return sign << (width - 1) | (exponent + bias) << (bits - 1) | (whole - 2 ** (bits - 1))


def decimal(text):
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    value = Fraction(int((whole + fraction) or "0"), 10 ** len(fraction))
    return value * Fraction(10) ** int(exponent or 0)


fixed = """0 1 -1 .5 5. 0.1 0.2 0.3 2.5e-3 1e10 1E+10 123456789 16777217 16777219 33554435 4294967297 9007199254740993
0.30000000000000004 1.7976931348623157e308 3.4028234663852886e38 3.4028235e38 1.17549435e-38 1.1754943e-38 1e-45 7e-46
4.9e-324 2.4703282292062328e-324 2.2250738585072011e-308 1e23 8.5e22 1.0000000596046448 1.00000005960464477539062500001
1.000000059604644775390625 1.00000017881393432617187500 0.000000000000000000000000000000000000011754943508222875
12345678901234567890 1234567890123456789e-19 99999999999999999999999999 7.2057594037927933e16 1e-22 1e22 3e-27 3e27
5e-28 123456789012345678e9 9223372036854775807 100000000000000016777216e-16 0.000123 -272.15 1e-400""".split()
draw = random.Random(7)
for _ in range(60):
    digits = str(draw.randrange(10 ** draw.randrange(1, 22)))
    point = draw.randrange(len(digits) + 1)
    fixed.append(digits[:point] + "." + digits[point:] + ("e%d" % draw.randrange(-40, 30) if draw.random() < 0.5 else ""))
for text in fixed:
    value = -decimal(text[1:]) if text[0] == "-" else decimal(text)
    single, double = round_to(value, 24, -126, 127, 127, 32), round_to(value, 53, -1022, 1023, 1023, 64)
    print('  { "%s", %s, "%s" },' % (text, "0x%08x" % single if single is not None else "false",
                                     "%016x" % double if double is not None else "big"))
