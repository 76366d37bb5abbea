// SPDX-License-Identifier: Apache-2.0
// Goal: the second reading says which slot each element belongs to, and refuses what it cannot say. Method: small
// programs with the reading that is due, family by family.
#include "SlotPrograms.h"
#include "dialect/OwnerOps.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::test;

namespace {

const char *const kRows = "r 0: 1x8x1";

struct Case {
  const char *body, *due;
};

/// The last op's results read as is due.
void expectAll(std::initializer_list<Case> cases) {
  for (const Case &one : cases) {
    Program program(one.body);
    if (!program.module) {
      continue;
    }
    for (Value result : program.last()->getResults()) {
      EXPECT_EQ(program.show(program.reader->readingOf(result)), one.due) << one.body;
    }
  }
}

TEST(SlotReading, Sources) {
  expectAll({
      {"%y = neg %x : f[8x4]", kRows},
      {"%y = neg %secret : f[8x4]", "unknown argument"},
      {"%y = add %x, %secret : f[8x4], f[8x4]", "unknown argument"},
      // A secret draw's numbers and masks lie at its slots; without a private read `expected` changes nothing.
      {"%y = compare \"ge\" %d, %i8 : i[8], i[8]", "d 0: 1x8x1"},
      {"%y = neg %xd : f[8x4]", "d 0: 1x8x1"},
      {"%y = sample_rows %r, %s, %s of %t, DRAW", "none"},
      {"%y = read_rows %o, %r, a : !O, i[8] -> f[8x1]", "none"},
      {"%y = read_rows %o, %d, a : !O, i[8] -> f[8x1]", "d 0: 1x8x1"},
      {"%y = read_rows %o, %k, a : !O, i[8] -> f[8x1]", kRows},
      // What a row says is no number of another private row.
      {"%y = read_rows %t, %k, a : !T, i[8] -> f[8x1]", "unknown read_rows"},
      {"%n = constant -1 : i64; %p = compare \"ge\" %i8, %n : i[8], i[]; %e = select %p, %d, %n : tensor<8xi1>, i[8], "
       "i[]; %y = read_rows %t, %e, a : !T, i[8] -> f[8x1]",
       "d 0: 1x8x1"},
      {"%e = slice %d, [2] to [6] by [2] : i[8]; %y = read_rows %t, %e, a : !T, i[2] -> f[2x1]",
       "d 0: 1x2x1 from 2 step 2"},
      // The neighbour's row would be a second one in the slot.
      {"%e = add %d, %i8 : i[8], i[8]; %y = read_rows %t, %e, a : !T, i[8] -> f[8x1]", "unknown read_rows"},
      // Positions that are a draw: their slots.
      {"%f = sample_rows %r, %s2, %s of %t, DRAW; %e = sample_rows %f, %s, %s of %t : i[8], i[], i[], !T -> i[8]; %z = "
       "read_rows %t, %e, a : !T, i[8] -> f[8]; %g = convert %f : i[8] -> f[8]; %y = mul %z, %g : f[8], f[8]",
       "? 0: 1x8x1"},
      // So of a part, found in the order of its split. How many rows a table has is no row of it.
      {"%f = sample_rows %r, %s2, %s of %t, part = [first 0.5], DRAW; %e = sample_rows %f, %s, %s of %t, split = "
       "[first 0.5] : i[8], i[], i[], !T -> i[8]; %y = read_rows %t, %e, a : !T, i[8] -> f[8]",
       "? 0: 1x8x1"},
      {"%e = sample_rows %r, %s, %s of %t, part = [other 0.5] : i[8], i[], i[], !T -> i[8]; %y = convert %e : i[8] -> "
       "f[8]",
       "none"},
      {"%e = sample_rows %r, %s, %s of %t : i[8], i[], i[], !T -> i[8]; %y = read_rows %t, %e, a : !T, i[8] -> f[8]",
       "? 0: 1x8x1"},
      {"%e = sample_rows %k, %s, %s of %o : i[8], i[], i[], !O -> i[8]; %y = convert %e : i[8] -> f[8]", kRows},
  });
}

TEST(SlotReading, Elementwise) {
  expectAll({
      {"%y = add %x, %p84 : f[8x4], f[8x4]", kRows},
      {"%y = mul %x, %c : f[8x4], f[]", kRows},
      {"%y = mul %x, %x : f[8x4], f[8x4]", kRows},
      {"%y = add %x, %xq : f[8x4], f[8x4]", "unknown add"},
      {"%y = add %x, %xd : f[8x4], f[8x4]", "unknown add"},
      {"%y = bitcast %x : f[8x4] -> tensor<8x4xi32>", kRows},
      {"%p = compare \"lt\" %x, %c : f[8x4], f[]; %y = select %p, %c, %p84 : tensor<8x4xi1>, f[], f[8x4]", kRows},
      // Equal sizes are not the same slots: the outer product of the rows with each other.
      {"%e = broadcast %v, dims = [1] : f[8] -> f[8x8]; %y = mul %vv, %e : f[8x8], f[8x8]", "unknown mul"},
      {"%a = reverse %x, dims = [0] : f[8x4]; %y = mul %x, %a : f[8x4], f[8x4]", "unknown mul"},
      // Sums go on with what is public, not with rows.
      {"%y = exp %total : f[4]", "sum of r"},
      {"%e = broadcast %total, dims = [1] : f[4] -> f[8x4]; %y = mul %e, %p84 : f[8x4], f[8x4]", "sum of r"},
      {"%e = broadcast %total, dims = [1] : f[4] -> f[8x4]; %y = sub %x, %e : f[8x4], f[8x4]", "unknown sub"},
      {"%e = reduce_sum %xq, dims = [0] : f[8x4]; %y = add %total, %e : f[4], f[4]", "sum of ?"},
  });
}

TEST(SlotReading, AlongDims) {
  expectAll({
      {"%y = reduce_sum %x, dims = [1] : f[8x4]", kRows},
      {"%y = reduce_sum %x, dims = [0] : f[8x4]", "sum of r"},
      {"%y = reduce_max %x, dims = [0] : f[8x4]", "unknown reduce_max"},
      {"%y = reduce_min %x, dims = [1] : f[8x4]", kRows},
      {"%y = argmax %x, dim = 0 : f[8x4]", "unknown argmax"},
      {"%y = argmin %mt, dim = 0 : f[4x8x4]", kRows},
      {"%y = cumsum %x, dim = 1 : f[8x4]", kRows},
      {"%y = cumlogsumexp %x, dim = 0 : f[8x4]", "unknown cumlogsumexp"},
      {"%y:2 = sort %x, dim = 1, descending = true : f[8x4]", kRows},
      {"%y:2 = sort %x, dim = 0, descending = true : f[8x4]", "unknown sort"},
      {"%y:2 = topk %x, dim = 1, k = 2, largest = true : f[8x4]", kRows},
      {"%y = fft_r2c %x, dims = [1] : f[8x4]", kRows},
      {"%y = fft_r2c %x, dims = [1, 0] : f[8x4]", "unknown fft_r2c"},
      {"%a = fft_r2c %x, dims = [1] : f[8x4]; %y = parts %a : tensor<8x3xcomplex<f32>>", kRows},
      {"%a = slice %x, [0, 0] to [8, 2] by [1, 1] : f[8x4]; %y = complex %a : f[8x2]", kRows},
      {"%a = slice %x, [0, 0] to [2, 4] by [1, 1] : f[8x4]; %e = transpose %a, perm = [1, 0] : f[2x4]; %y = complex %e "
       ": f[4x2]",
       "unknown complex"},
      {"%y:2 = cholesky %m : f[8x4x4]", kRows},
      {"%y:3 = svd %x full = false : f[8x4]", "unknown svd"},
      {"%y = triangular_solve %m, %m, lower = true, unit = false : f[8x4x4], f[8x4x4]", kRows},
      {"%a:3 = ldl %m hermitian = false : f[8x4x4]; %y = ldl_solve %a#0, %a#1, %m, hermitian = false : f[8x4x4], "
       "i[8x4], f[8x4x4]",
       kRows},
  });
}

TEST(SlotReading, Products) {
  expectAll({
      {"%w = iota f[4x3]; %y = dot %x, %w, batch [] [] contract [1] [0] : f[8x4], f[4x3] -> f[8x3]", kRows},
      {"%w = iota f[4x3]; %y = dot %w, %x, batch [] [] contract [0] [1] : f[4x3], f[8x4] -> f[3x8]", "r 1: 1x8x1"},
      {"%y = dot %x, %x, batch [] [] contract [0] [0] : f[8x4], f[8x4] -> f[4x4]", "sum of r"},
      {"%y = dot %x, %p84, batch [] [] contract [0] [0] : f[8x4], f[8x4] -> f[4x4]", "sum of r"},
      {"%y = dot %x, %x, batch [] [] contract [1] [1] : f[8x4], f[8x4] -> f[8x8]", "unknown dot"},
      {"%y = dot %x, %xq, batch [] [] contract [0] [0] : f[8x4], f[8x4] -> f[4x4]", "unknown dot"},
      {"%y = dot %m, %x, batch [0] [0] contract [2] [1] : f[8x4x4], f[8x4] -> f[8x4]", kRows},
      // Batch against contracted, and two dims contracted crosswise.
      {"%a = broadcast %x, dims = [0, 1] : f[8x4] -> f[8x4x8]; %y = dot %a, %x, batch [2] [0] contract [1] [1] : "
       "f[8x4x8], f[8x4] -> f[8x8]",
       "unknown dot"},
      {"%y = dot %vv, %vv, batch [] [] contract [0, 1] [1, 0] : f[8x8], f[8x8] -> f[]", "unknown dot"},
      {"%y = dot %vv, %vv, batch [] [] contract [0, 1] [0, 1] : f[8x8], f[8x8] -> f[]", "sum of r"},
      // Batch dims come in the order of the lists: the type says so.
      {"%y = dot %m, %m, batch [1, 0] [1, 0] contract [2] [2] : f[8x4x4], f[8x4x4] -> f[4x8]", "r 1: 1x8x1"},
      {"%w = iota f[2x3x3x3]; %y = conv %img, %w, by [1, 1] padding [1, 1] : f[8x3x6x6], f[2x3x3x3]", kRows},
      {"%w = iota f[3x2x3x3]; %y = conv_grad_input %img, %w, by [1, 1] padding [1, 1] : f[8x3x6x6], f[3x2x3x3] -> "
       "f[8x2x6x6]",
       kRows},
      {"%a = iota f[2x3x6x6]; %y = conv %a, %img, by [1, 1] padding [0, 0] : f[2x3x6x6], f[8x3x6x6]", "unknown conv"},
      {"%y = conv %img, %img, by [1, 1] padding [0, 0] : f[8x3x6x6], f[8x3x6x6]", "unknown conv"},
      {"%y = conv_grad_weight %img, %img, by [1, 1] padding [1, 1] : f[8x3x6x6], f[8x3x6x6] -> f[3x3x3x3]", "sum of r"},
      {"%y = pool_sum %img, window = [2, 2], by [2, 2] padding [0, 0] : f[8x3x6x6]", kRows},
      {"%y:2 = pool_max %m, window = [2], by [2] padding [0] : f[8x4x4]", kRows},
      {"%a = transpose %m, perm = [1, 2, 0] : f[8x4x4]; %y = pool_sum %a, window = [2], by [2] padding [0] : f[4x4x8]",
       "unknown pool_sum"},
  });
}

TEST(SlotReading, Reshapes) {
  expectAll({
      {"%y = reshape %x : f[8x4] -> f[32]", "r 0: 1x8x4"},
      {"%a = reshape %m : f[8x4x4] -> f[32x4]; %y = reshape %a : f[32x4] -> f[8x4x4]", kRows},
      {"%a = reshape %m : f[8x4x4] -> f[32x4]; %y = reshape %a : f[32x4] -> f[16x8]", "r 0: 1x8x2"},
      {"%y = reshape %mt : f[4x8x4] -> f[128]", "r 0: 4x8x4"},
      {"%e = reshape %mt : f[4x8x4] -> f[128]; %y = reshape %e : f[128] -> f[2x1x32x2]", "r 2: 2x8x2"},
      {"%y = reshape %x : f[8x4] -> f[1x8x1x2x2]", "r 1: 1x8x1"},
      // Slots in no single dim are followed to where they lie in one again.
      {"%y = reshape %x : f[8x4] -> f[4x8]", "r -1: 1x8x4"},
      {"%y = reshape %mt : f[4x8x4] -> f[8x16]", "r -1: 4x8x4"},
      {"%a = reshape %x : f[8x4] -> f[4x8]; %e = neg %a : f[4x8]; %y = reshape %e : f[4x8] -> f[8x4]", kRows},
      {"%a = reshape %x : f[8x4] -> f[4x8]; %y = reverse %a, dims = [1] : f[4x8]", "unknown reverse"},
      {"%a = reshape %x : f[8x4] -> f[4x8]; %y = reduce_sum %a, dims = [0, 1] : f[4x8]", "unknown reduce_sum"},
      {"%y = reduce_sum %flat, dims = [0] : f[32]", "sum of r"},
  });
}

TEST(SlotReading, Layout) {
  expectAll({
      {"%y = transpose %m, perm = [2, 0, 1] : f[8x4x4]", "r 1: 1x8x1"},
      {"%y = broadcast %v, dims = [1] : f[8] -> f[8x8]", "r 1: 1x8x1"},
      {"%y = slice %x, [0, 1] to [8, 3] by [1, 1] : f[8x4]", kRows},
      {"%y = slice %x, [1, 0] to [8, 4] by [3, 1] : f[8x4]", "r 0: 1x3x1 from 1 step 3"},
      {"%y = slice %x, [5, 0] to [6, 4] by [1, 1] : f[8x4]", "r slot 5"},
      {"%y = slice %flat, [2] to [32] by [4] : f[32]", kRows},
      {"%y = slice %flat, [8] to [24] by [1] : f[32]", "r 0: 1x4x4 from 2 step 1"},
      {"%y = slice %flat, [9] to [11] by [1] : f[32]", "r slot 2"},
      {"%y = slice %flat, [2] to [30] by [1] : f[32]", "unknown slice"},
      {"%y = slice %mtflat, [32] to [96] by [1] : f[128]", "r 0: 2x8x4"},
      {"%y = slice %mtflat, [3] to [128] by [4] : f[128]", "r 0: 4x8x1"},
      {"%y = slice %mtflat, [3] to [124] by [4] : f[128]", "unknown slice"},
      {"%y = slice %mtflat, [40] to [48] by [1] : f[128]", "r 0: 1x2x4 from 2 step 1"},
      {"%y = slice %mtflat, [16] to [48] by [1] : f[128]", "unknown slice"},
      {"%y = pad %odd, %c, low [2, 0] high [2, 0] gap [1, 0] : f[3x4], f[]", "unknown pad"},
      // As wider rows before it is among the slots: a slot that was left out has no elements either way.
      {"%y = slice %x, [0, 0] to [8, 4] by [2, 1] : f[8x4]; %z = pad %y, %c, low [0, 0] high [1, 0] gap [1, 0] : "
       "f[4x4], "
       "f[]",
       "r 0: 1x4x2 from 0 step 2"},
      {"%y = reverse %x, dims = [1] : f[8x4]", kRows},
      {"%y = reverse %x, dims = [0] : f[8x4]", "r 0: 1x8x1 from 7 step -1"},
      {"%y = concat %x, %p84, %x dim = 1 : f[8x4], f[8x4], f[8x4]", kRows},
      {"%y = concat %x, %x dim = 0 : f[8x4], f[8x4]", "unknown concat"},
      {"%y = pad %x, %c, low [0, 1] high [0, -2] gap [0, 1] : f[8x4], f[]", kRows},
      {"%y = pad %x, %c, low [1, 0] high [2, 0] gap [3, 0] : f[8x4], f[]", "r 0: 1x8x4"},
      {"%y = pad %x, %c, low [-2, 0] high [-1, 0] gap [0, 0] : f[8x4], f[]", "r 0: 1x5x1 from 2 step 1"},
      {"%y = pad %x, %c, low [1, 0] high [0, 0] gap [0, 0] : f[8x4], f[]", "unknown pad"},
      // Gradients of slices: back to the slots that it left out.
      {"%a = slice %x, [2, 0] to [5, 4] by [1, 1] : f[8x4]; %y = pad %a, %c, low [2, 0] high [3, 0] gap [0, 0] : "
       "f[3x4], f[]",
       kRows},
      {"%a = slice %x, [1, 0] to [8, 4] by [3, 1] : f[8x4]; %y = pad %a, %c, low [1, 0] high [0, 0] gap [2, 0] : "
       "f[3x4], f[]",
       kRows},
      {"%a = slice %x, [3, 0] to [4, 4] by [1, 1] : f[8x4]; %f = reshape %a : f[1x4] -> f[4]; %g = reshape %f : f[4] "
       "-> f[1x4]; %y = pad %g, %c, low [3, 0] high [4, 0] gap [0, 0] : f[1x4], f[]",
       kRows},
      {"%f = reduce_sum %v, dims = [0] : f[8]; %y = pad %x, %f, low [0, 1] high [0, 0] gap [0, 0] : f[8x4], f[]",
       "unknown pad"},
  });
}

TEST(SlotReading, Updates) {
  expectAll({
      {"%u = slice %x, [0, 1] to [8, 3] by [1, 1] : f[8x4]; %y = update_slice %p84, %u, at [0, 2] by [1, 1] : f[8x4], "
       "f[8x2]",
       kRows},
      {"%y = update_slice %x, %odd, at [2, 0] by [2, 1] : f[8x4], f[3x4]", kRows},
      {"%y = update_slice %x, %odd, at [1, 0] by [2, 1] : f[8x4], f[3x4]", "unknown update_slice"},
      {"%y = update_slice %x, %row, at [5, 0] by [1, 1] : f[8x4], f[1x4]", kRows},
      {"%y = update_slice %x, %row, at [4, 0] by [1, 1] : f[8x4], f[1x4]", "unknown update_slice"},
      {"%u = iota f[2x4]; %y = update_slice %x, %u, at [4, 0] by [1, 1] : f[8x4], f[2x4]", kRows},
      {"%y = dynamic_slice %x from [%s], dims = [1], sizes = [2] : f[8x4], i[]", kRows},
      {"%y = dynamic_slice %x from [%s], dims = [0], sizes = [3] : f[8x4], i[]", "r 0: 1x3x1 at s"},
      {"%y = dynamic_slice %x from [%s], dims = [0], sizes = [8] : f[8x4], i[]", kRows},
      {"%e = reduce_sum %k, dims = [0] : i[8]; %y = dynamic_slice %x from [%e], dims = [1], sizes = [2] : f[8x4], i[]",
       "unknown dynamic_slice"},
      {"%y = dynamic_slice %flat from [%s], dims = [0], sizes = [4] : f[32], i[]", "unknown dynamic_slice"},
      // Where a start is clamped depends on the size.
      {"%y = slice %dyn, [0, 0] to [2, 4] by [1, 1] : f[3x4]", "unknown slice"},
      {"%y = dynamic_update_slice %x, %dyn from [%s], dims = [0] : f[8x4], f[3x4], i[]", kRows},
      {"%y = dynamic_update_slice %p84, %dyn from [%s2], dims = [0] : f[8x4], f[3x4], i[]",
       "unknown dynamic_update_slice"},
      {"%a = dynamic_slice %x from [%s], dims = [1], sizes = [2] : f[8x4], i[]; %y = dynamic_update_slice %p84, %a "
       "from [%s2], dims = [1] : f[8x4], f[8x2], i[]",
       kRows},
      {"%a = iota f[3x4]; %y = dynamic_update_slice %x, %a from [%s2], dims = [0] : f[8x4], f[3x4], i[]", kRows},
  });
}

TEST(SlotReading, Index) {
  expectAll({
      {"%i = iota i[2x2]; %y = take %x, %i, dim = 1 : f[8x4], i[2x2]", kRows},
      {"%a = transpose %x, perm = [1, 0] : f[8x4]; %i = iota i[2x2]; %y = take %a, %i, dim = 0 : f[4x8], i[2x2]",
       "r 2: 1x8x1"},
      {"%y = take %x, %i8, dim = 0 : f[8x4], i[8]", "unknown take"},
      {"%w = iota f[2x5x3]; %y = take %w, %k, dim = 1 : f[2x5x3], i[8]", "r 1: 1x8x1"},
      {"%y = take %x, %k, dim = 1 : f[8x4], i[8]", "unknown take"},
      {"%y = take_along %x, %k1, dim = 1 : f[8x4], i[8x1]", kRows},
      {"%y = take_along %p8, %k, dim = 0 : f[8], i[8]", kRows},
      {"%y = take_along %v, %i8, dim = 0 : f[8], i[8]", "unknown take_along"},
      {"%y = put \"set\" %x, %i8, %p84, dim = 0 : f[8x4], i[8], f[8x4]", kRows},
      {"%i = iota i[3]; %u = iota f[8x3]; %y = put \"max\" %x, %i, %u, dim = 1 : f[8x4], i[3], f[8x3]", kRows},
      {"%i = iota i[2x2]; %w = iota f[9x8]; %u = broadcast %v, dims = [2] : f[8] -> f[2x2x8]; %y = put \"set\" %w, %i, "
       "%u, dim = 0 : f[9x8], i[2x2], f[2x2x8]",
       "r 1: 1x8x1"},
      // The gradient of an embedding, and a histogram.
      {"%y = put \"add\" %z94, %k, %x, dim = 0 : f[9x4], i[8], f[8x4]", "sum of r"},
      {"%y = put \"add\" %z9, %k, %p8, dim = 0 : f[9], i[8], f[8]", "sum of r"},
      {"%y = put \"add\" %z9, %i8, %v, dim = 0 : f[9], i[8], f[8]", "sum of r"},
      {"%y = put \"set\" %z94, %k, %x, dim = 0 : f[9x4], i[8], f[8x4]", "unknown put"},
      {"%y = put \"add\" %z94, %k, %xq, dim = 0 : f[9x4], i[8], f[8x4]", "unknown put"},
      {"%y = put \"add\" %x, %k, %x, dim = 0 : f[8x4], i[8], f[8x4]", "unknown put"},
      {"%u = iota f[8x1]; %y = put_along \"set\" %x, %k1, %u, dim = 1 : f[8x4], i[8x1], f[8x1]", kRows},
      {"%y = put_along \"add\" %z9, %k, %v, dim = 0 : f[9], i[8], f[8]", "sum of r"},
      {"%y = put_along \"max\" %z9, %k, %v, dim = 0 : f[9], i[8], f[8]", "unknown put_along"},
      {"%y = put_along \"set\" %v, %i8, %p8, dim = 0 : f[8], i[8], f[8]", kRows},
  });
}

/// Where all that has rows is of one slot, all results are; sizes of 0 have no elements.
TEST(SlotReading, OneSlotAndNone) {
  expectAll({
      {"%y = reduce_max %b, dims = [0] : f[1x4]", "one slot 0"},
      {"%y = dot %b, %b, batch [] [] contract [0, 1] [0, 1] : f[1x4], f[1x4] -> f[]", "one slot 0"},
      {"%a = reshape %b : f[1x4] -> f[4]; %e = reduce_sum %a, dims = [0] : f[4]; %y = mul %p84, %e : f[8x4], f[]",
       "one slot 0"},
      {"%a = reduce_sum %b, dims = [0, 1] : f[1x4]; %y = mul %x, %a : f[8x4], f[]", "unknown mul"},
      {"%a = slice %v, [3] to [4] by [1] : f[8]; %e = reshape %a : f[1] -> f[]; %y = mul %x, %e : f[8x4], f[]",
       "unknown mul"},
      {"%a = slice %v, [3] to [4] by [1] : f[8]; %e = slice %v, [4] to [5] by [1] : f[8]; %y = mul %a, %e : f[1], f[1]",
       "unknown mul"},
      {"%a = reduce_sum %b, dims = [0, 1] : f[1x4]; %y = broadcast %a, dims = [] : f[] -> f[8]", "one slot 0"},
      {"%y = slice %x, [3, 0] to [3, 4] by [1, 1] : f[8x4]", "none"},
      {"%a = slice %x, [0, 2] to [8, 2] by [1, 1] : f[8x4]; %y = reduce_sum %a, dims = [0, 1] : f[8x0]", "none"},
  });
}

const char *const kSum = R"(
  %w = clipped_sum "flat" rows %ROWS, bounds = [1.0], norm = 2 (%IN, %p84) : i[8], (f[8x4], f[8x4]) -> tensor<4xf64> {
  ^bb0(%g: f[8x4], %h: f[8x4]):
    %a = mul %g, %h : f[8x4], f[8x4]
    %e = OP %a, dims = [0] : f[8x4]
    sojourn.yield %e : f[4]
  }
)";

std::string clipped(std::string rows, std::string op, std::string input = "x") {
  std::string text = std::regex_replace(kSum, std::regex("IN"), input);
  text.replace(text.find("ROWS"), 4, rows);
  return text.replace(text.find("OP"), 2, op);
}

TEST(SlotReading, RegionsOfClippedSums) {
  std::string noise = "%n = iota i[4]; %y = noise \"gaussian\" (%w) coins (%n), exponent = -20, scale = 1048576 : "
                      "(tensor<4xf64>), (i[4]) -> (f[4])";
  expectAll(
      {{clipped("r", "reduce_sum").c_str(), "sum of r"},
       {clipped("r", "reduce_max").c_str(), "unknown reduce_max"},
       {clipped("q", "reduce_sum").c_str(), "unknown clipped_sum"},
       {clipped("d", "reduce_sum", "xd").c_str(), "sum of d"},
       {("%i = reverse %d, dims = [0] : i[8];" + clipped("i", "reduce_sum", "xd")).c_str(), "unknown clipped_sum"},
       {(clipped("r", "reduce_sum") + noise).c_str(), "none"}});
  std::string rows = std::regex_replace(clipped("r", "reduce_sum"), std::regex("yield %e : f.4."), "yield %a : f[8x4]");
  rows = std::regex_replace(rows, std::regex("tensor<4xf64>"), "tensor<8x4xf64>");
  expectAll({{rows.c_str(), "unknown clipped_sum"}});
  Program program(clipped("r", "reduce_sum"));
  Block &body = cast<ClippedSumOp>(program.last()).getBody().front();
  EXPECT_EQ(program.show(program.reader->readingOf(body.getArgument(0))), kRows);
  EXPECT_EQ(program.show(program.reader->readingOf(body.getArgument(1))), "none");
  EXPECT_EQ(program.show(program.reader->readingOf(body.front().getResult(0))), kRows);
  EXPECT_EQ(program.show(program.reader->readingOf(body.getTerminator()->getOperand(0))), "sum of r");
}

TEST(SlotReading, Compares) {
  Program program(
      "%f = sample_rows %r, %s2, %s of %t, DRAW; %e = sample_rows %f, %s, %s of %t : i[8], i[], i[], !T -> "
      "i[8]; %z = read_rows %t, %e, a : !T, i[8] -> f[8]; %l = cumsum %x, dim = 0 : f[8x4]; %n = neg %p84 : "
      "f[8x4]; %w = slice %x, [5, 0] to [6, 4] by [1, 1] : f[8x4]; %a = dynamic_slice %x from [%s], dims = "
      "[0], sizes = [3] : f[8x4], i[]; %o1 = neg %total : f[4]; %y = neg %x : f[8x4]");
  std::vector<Value> values;
  for (Operation *op = program.last(); values.size() < 9; op = op->getPrevNode()) {
    values.push_back(op->getResult(0));
  }
  Value rows = values[0], sum = values[1], dynamic = values[2], row = values[3], none = values[4], lost = values[5],
        composed = values[6], r = program.step.getArgument(1), q = program.step.getArgument(2);
  using Claimed = SlotClaim::Kind;
  const Agreement yes = Agreement::Agrees, no = Agreement::Contradicts, cannot = Agreement::CannotTell;
  const SlotClaim perRow{Claimed::PerRow, r, 0, 1, 8, 1, 0, 1, Value()};
  auto agreement = [&](Value value, SlotClaim claim) { return compare(program.reader->readingOf(value), claim); };
  auto with = [&](auto member, auto is, SlotClaim claim) {
    claim.*member = is;
    return claim;
  };
  SlotClaim isPublic = with(&SlotClaim::kind, Claimed::Public, perRow), isSum = isPublic, isNothing = isPublic;
  isSum.kind = Claimed::Sum;
  isNothing.kind = Claimed::Nothing;
  for (Value value : {rows, sum, dynamic, row, none, lost}) {
    EXPECT_EQ(agreement(value, isNothing), yes);
    EXPECT_EQ(agreement(value, isPublic), value == none ? yes : value == lost ? cannot : no);
    EXPECT_EQ(agreement(value, perRow), value == none || value == rows ? yes : value == lost ? cannot : no);
    // A row is a sum of which the other terms are 0.
    EXPECT_EQ(agreement(value, isSum), value == lost ? cannot : value == rows || value == dynamic ? no : yes);
  }
  EXPECT_EQ(agreement(sum, with(&SlotClaim::list, q, isSum)), no);
  EXPECT_EQ(agreement(rows, with(&SlotClaim::list, q, perRow)), no);
  for (auto number : {&SlotClaim::dim, &SlotClaim::outer, &SlotClaim::inner, &SlotClaim::slots, &SlotClaim::first,
                      &SlotClaim::step}) {
    EXPECT_EQ(agreement(rows, with(number, 2, perRow)), no);
  }
  // Of one slot, which one it is counts alone.
  const SlotClaim slot{Claimed::PerRow, r, 1, 2, 1, 2, 5, 1, Value()};
  EXPECT_EQ(agreement(row, slot), yes);
  EXPECT_EQ(agreement(row, with(&SlotClaim::first, 4, slot)), no);
  const SlotClaim part{Claimed::PerRow, r, 0, 1, 3, 1, 0, 1, program.step.getArgument(4)};
  EXPECT_EQ(agreement(dynamic, part), yes);
  EXPECT_EQ(agreement(dynamic, with(&SlotClaim::start, program.step.getArgument(5), part)), no);
  EXPECT_EQ(agreement(dynamic, with(&SlotClaim::start, Value(), part)), no);
  // Row numbers that are computed from a draw are its list, too.
  EXPECT_EQ(agreement(composed, with(&SlotClaim::list, values[7], perRow)), yes);
  EXPECT_EQ(agreement(composed, with(&SlotClaim::list, values[8], perRow)), yes);
  EXPECT_EQ(agreement(composed, perRow), no);
}
} // namespace
