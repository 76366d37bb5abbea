// SPDX-License-Identifier: Apache-2.0
// Which arguments of which operator promote, and how: the one table. Argument names are the schema's; a list argument
// takes part with all its elements. Operators that demand equal types, or compute each operand in its own, have no row.
#include "passes/PromotionRules.h"

#include "llvm/ADT/StringMap.h"

using namespace sojourn;

static constexpr PromotionRow kTable[] = {
    // Arithmetic.
    {"add", Computes::Common, "self,other"},
    {"sub", Computes::Common, "self,other"},
    {"rsub", Computes::Common, "self,other"},
    {"mul", Computes::Common, "self,other"},
    {"div", Computes::CommonFloat, "self,other"}, // with rounding_mode: Common
    {"true_divide", Computes::CommonFloat, "self,other"},
    {"floor_divide", Computes::Common, "self,other"},
    {"remainder", Computes::Common, "self,other"},
    {"fmod", Computes::Common, "self,other"},
    {"pow", Computes::Common, "self,exponent"},
    {"maximum", Computes::Common, "self,other"},
    {"minimum", Computes::Common, "self,other"},
    {"fmax", Computes::Common, "self,other"},
    {"fmin", Computes::Common, "self,other"},
    {"hypot", Computes::Common, "self,other"},
    {"logaddexp", Computes::Common, "self,other"},
    {"logaddexp2", Computes::Common, "self,other"},
    {"gcd", Computes::Common, "self,other"},
    {"lcm", Computes::Common, "self,other"},
    {"heaviside", Computes::Common, "self,values"},
    {"atan2", Computes::CommonFloat, "self,other"},
    {"copysign", Computes::CommonFloat, "self,other"},
    {"xlogy", Computes::CommonFloat, "self,other"},
    {"special_xlog1py", Computes::CommonFloat, "self,other"},
    {"clamp", Computes::Common, "self,min,max"},
    {"clamp_min", Computes::Common, "self,min"},
    {"clamp_max", Computes::Common, "self,max"},
    {"lerp", Computes::Common, "self,end"},
    {"addcmul", Computes::Common, "self,tensor1,tensor2"},
    {"addcdiv", Computes::Common, "self,tensor1,tensor2"},
    {"addr", Computes::Common, "self,vec1,vec2"},
    {"bitwise_and", Computes::Common, "self,other"},
    {"bitwise_or", Computes::Common, "self,other"},
    {"bitwise_xor", Computes::Common, "self,other"},
    {"bitwise_left_shift", Computes::Common, "self,other"},
    {"bitwise_right_shift", Computes::Common, "self,other"},
    {"__and__", Computes::Common, "self,other"},
    {"__or__", Computes::Common, "self,other"},
    {"__xor__", Computes::Common, "self,other"},
    {"__lshift__", Computes::Common, "self,other"},
    {"__rshift__", Computes::Common, "self,other"},
    // Choice and joining.
    {"where", Computes::Common, "self,other"},
    {"cat", Computes::Common, "tensors"},
    {"stack", Computes::Common, "tensors"},
    // Losses and gradients that broadcast as arithmetic does.
    {"mse_loss", Computes::Common, "self,target"},
    {"smooth_l1_loss", Computes::Common, "self,target"},
    {"mse_loss_backward", Computes::IntoSelf, "grad_output,self,target"},
    {"smooth_l1_loss_backward", Computes::IntoSelf, "grad_output,self,target"},
    {"soft_margin_loss", Computes::IntoSelf, "self,target"},
    {"soft_margin_loss_backward", Computes::IntoSelf, "grad_output,self,target"},
    {"huber_loss", Computes::IntoSelf, "self,target"},
    {"binary_cross_entropy_with_logits", Computes::IntoTarget, "self,target,weight,pos_weight"},
    {"sigmoid_backward", Computes::Common, "grad_output,output"},
    {"tanh_backward", Computes::Common, "grad_output,output"},
    // Unary operators with a float result.
    {"exp", Computes::CommonFloat, "self"},
    {"exp2", Computes::CommonFloat, "self"},
    {"expm1", Computes::CommonFloat, "self"},
    {"log", Computes::CommonFloat, "self"},
    {"log2", Computes::CommonFloat, "self"},
    {"log10", Computes::CommonFloat, "self"},
    {"log1p", Computes::CommonFloat, "self"},
    {"sqrt", Computes::CommonFloat, "self"},
    {"rsqrt", Computes::CommonFloat, "self"},
    {"reciprocal", Computes::CommonFloat, "self"},
    {"sin", Computes::CommonFloat, "self"},
    {"cos", Computes::CommonFloat, "self"},
    {"tan", Computes::CommonFloat, "self"},
    {"asin", Computes::CommonFloat, "self"},
    {"acos", Computes::CommonFloat, "self"},
    {"atan", Computes::CommonFloat, "self"},
    {"sinh", Computes::CommonFloat, "self"},
    {"cosh", Computes::CommonFloat, "self"},
    {"tanh", Computes::CommonFloat, "self"},
    {"asinh", Computes::CommonFloat, "self"},
    {"acosh", Computes::CommonFloat, "self"},
    {"atanh", Computes::CommonFloat, "self"},
    {"sigmoid", Computes::CommonFloat, "self"},
    {"logit", Computes::CommonFloat, "self"},
    {"sinc", Computes::CommonFloat, "self"},
    {"erf", Computes::CommonFloat, "self"},
    {"erfc", Computes::CommonFloat, "self"},
    {"erfinv", Computes::CommonFloat, "self"},
    {"lgamma", Computes::CommonFloat, "self"},
    {"digamma", Computes::CommonFloat, "self"},
    {"deg2rad", Computes::CommonFloat, "self"},
    {"rad2deg", Computes::CommonFloat, "self"},
    {"logsumexp", Computes::CommonFloat, "self"},
    // Predicates.
    {"eq", Computes::Predicate, "self,other"},
    {"ne", Computes::Predicate, "self,other"},
    {"lt", Computes::Predicate, "self,other"},
    {"le", Computes::Predicate, "self,other"},
    {"gt", Computes::Predicate, "self,other"},
    {"ge", Computes::Predicate, "self,other"},
    {"logical_and", Computes::Truth, "self,other"},
    {"logical_or", Computes::Truth, "self,other"},
    {"logical_xor", Computes::Truth, "self,other"},
    {"logical_not", Computes::Truth, "self"},
    {"any", Computes::Truth, "self"},
    {"all", Computes::Truth, "self"},
    // Reductions and scans.
    {"sum", Computes::Sum, "self"},
    {"nansum", Computes::Sum, "self"},
    {"prod", Computes::Sum, "self"},
    {"cumsum", Computes::Sum, "self"},
    {"cumprod", Computes::Sum, "self"},
    {"trace", Computes::Sum, "self"},
    {"mean", Computes::Dtype, "self"},
    {"norm", Computes::Dtype, "self"},
    {"linalg_vector_norm", Computes::Dtype, "self"},
    {"_softmax", Computes::Dtype, "self"}, // half_to_float: f32
    {"_log_softmax", Computes::Dtype, "self"},
    // Writes into a tensor, which keeps its type.
    {"copy", Computes::Self, "src"},
    {"fill", Computes::Self, "value"},
    {"masked_fill", Computes::Self, "value"},
    {"index_fill", Computes::Self, "value"},
    {"scatter", Computes::Self, "src,value"},
    {"select_scatter", Computes::Self, "src"},
    {"slice_scatter", Computes::Self, "src"},
    {"diagonal_scatter", Computes::Self, "src"},
    {"as_strided_scatter", Computes::Self, "src"},
};

const PromotionRow *sojourn::findPromotionRow(llvm::StringRef base) {
  static const llvm::StringMap<const PromotionRow *> index = [] {
    llvm::StringMap<const PromotionRow *> map;
    for (const PromotionRow &row : kTable) {
      map[row.base] = &row;
    }
    return map;
  }();
  return index.lookup(base);
}
