/* What losses share: how single losses become the result. attr.i of a loss holds one of these. */
#pragma once
#include "fold.h"

enum lt_loss_reduction { LT_LOSS_MEAN, LT_LOSS_SUM, LT_LOSS_NONE, LT_LOSS_BATCHMEAN };

/* Losses of 16-bit floats, and the statistics and weight gradients of norms, come in float32. */
static inline int lt_loss_dtype(int dtype) { return dtype == LT_FLOAT64 ? LT_FLOAT64 : LT_FLOAT32; }
