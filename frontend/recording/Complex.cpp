// SPDX-License-Identifier: Apache-2.0
// Complex numbers: what takes them; and conjugation and negation that torch puts off (x.conj(), and the imaginary part
// of that), a bit of the tensor. torch resolves it before most ops; here it is resolved for those that CPU kernels take
// as it is.
#include "frontend/Error.h"
#include "frontend/recording/Arguments.h"
#include "frontend/recording/Record.h"

#include <ATen/ops/conj_physical.h>
#include <ATen/ops/neg.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace sojourn::frontend {

/// By functional base name; each was compared with eager on complex numbers (test_sweep.py). An op over lists takes
/// what its elements' op takes.
static constexpr std::string_view kTakesComplex =
    "_chunk_cat _conj _conj_physical _fft_c2c _fft_c2r _fft_r2c _index_put_impl_ _linalg_det _linalg_eigh "
    "_linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _logcumsumexp _reshape_alias _to_copy "
    "_unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view abs "
    "acos acosh add addbmm addcdiv addcmul addmm addmv addr alias alias_copy all angle any as_strided "
    "as_strided_copy as_strided_scatter asin asinh atan atanh baddbmm block_diag bmm cat channel_shuffle "
    "cholesky cholesky_inverse cholesky_solve clone col2im complex conj_physical constant_pad_nd copy cos cosh "
    "count_nonzero cumprod cumsum detach diag_embed diagonal diagonal_backward diagonal_copy diagonal_scatter "
    "dist div dot empty empty_like empty_permuted empty_strided eq exp exp2 expand expand_copy expm1 eye fill "
    "flip full full_like gather geqrf im2col index index_add index_copy index_fill index_put index_select isinf "
    "isnan ldexp lerp lift_fresh linalg_cholesky_ex linalg_cross linalg_eig linalg_eigvals "
    "linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu "
    "linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular "
    "linalg_vector_norm linspace log log10 log1p log2 logaddexp logcumsumexp logical_and logical_not logical_or "
    "logical_xor logspace logsumexp lu_unpack masked_fill masked_scatter masked_scatter_backward mean mm mul mv "
    "narrow_copy ne neg new_empty new_empty_strided new_full new_ones new_zeros nonzero_static norm normal ones "
    "ones_like ormqr permute permute_copy pixel_shuffle pixel_unshuffle polar pow prod put rand rand_like randn "
    "randn_like reciprocal reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward "
    "reflection_pad3d reflection_pad3d_backward renorm repeat replication_pad1d replication_pad1d_backward "
    "replication_pad2d replication_pad2d_backward replication_pad3d replication_pad3d_backward resize roll rot90 "
    "rsqrt rsub scalar_tensor scatter scatter_add select select_backward select_scatter sgn sigmoid "
    "sigmoid_backward silu sin sinc sinh slice slice_backward slice_scatter split split_copy split_with_sizes "
    "split_with_sizes_copy sqrt squeeze squeeze_copy stack std std_mean sub sum t t_copy take tan tanh "
    "tanh_backward trace transpose transpose_copy triangular_solve tril triu unbind unbind_copy unfold "
    "unfold_backward unfold_copy uniform unsafe_split unsqueeze unsqueeze_copy var var_mean vdot view "
    "view_as_complex_copy view_as_real_copy view_copy where zero zeros zeros_like ";

bool takesComplex(std::string_view base) {
  static const std::unordered_set<std::string_view> names = [] {
    std::unordered_set<std::string_view> all;
    for (std::string_view rest = kTakesComplex; !rest.empty();) {
      const size_t end = rest.find(' ');
      all.insert(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    return all;
  }();
  constexpr std::string_view kLists = "_foreach_";
  if (base.starts_with(kLists)) {
    base.remove_prefix(kLists.size());
  }
  return names.count(base) > 0 || (base.ends_with('_') && names.count(base.substr(0, base.size() - 1)) > 0);
}

at::Tensor asStored(const at::Tensor &tensor) {
  ViewMeta meta;
  meta.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  meta.strides.assign(tensor.strides().begin(), tensor.strides().end());
  meta.offset = tensor.storage_offset();
  at::Tensor plain = makeView(tensor, meta);
  plain._set_conj(false);
  plain._set_neg(false);
  return plain;
}

at::Tensor resolved(const at::Tensor &tensor) {
  if (!isLazilyNegated(tensor)) {
    return tensor;
  }
  at::Tensor value = isRemote(tensor) ? asStored(tensor) : tensor.resolve_conj().resolve_neg();
  if (isRemote(tensor)) {
    value = tensor.is_conj() ? at::conj_physical(value) : value;
    value = tensor.is_neg() ? at::neg(value) : value;
  }
  return value;
}

void Recorder::recordNegated(RemoteDevice &device, torch::jit::Stack *stack) {
  OpInfo &info = *info_;
  const size_t first = stack->size() - info.args.size();
  std::optional<at::Tensor> target;
  for (size_t i = 0; i < info.args.size(); ++i) {
    c10::IValue &argument = (*stack)[first + i];
    if (info.args[i] == ArgKind::Tensor && argument.isTensor() && argument.toTensor().defined()) {
      const at::Tensor tensor = argument.toTensor();
      if (!isMutated(info, i)) {
        argument = resolved(tensor);
      } else if (isLazilyNegated(tensor)) {
        if (info.special != Special::Copy) {
          fail(ErrorKind::Unsupported, info,
               "it would write through a conjugate or negated view; call resolve_conj() or resolve_neg() on it first");
        }
        target = tensor;
        argument = asStored(tensor);
      }
    } else if (info.args[i] == ArgKind::TensorList && argument.isList()) {
      c10::impl::GenericList list = argument.toList();
      c10::impl::GenericList plain(list.elementType());
      for (const c10::IValue &element : list) {
        plain.push_back(element.isTensor() ? c10::IValue(resolved(element.toTensor())) : element);
      }
      argument = plain;
    }
  }
  if (target) {
    // What is stored is the opposite of what is written.
    at::Tensor source = (*stack)[first + 1].toTensor();
    source = target->is_conj() ? at::conj_physical(source) : source;
    (*stack)[first + 1] = target->is_neg() ? at::neg(source) : source;
  }
  record(device, stack);
  if (target) {
    stack->back() = *target;
  }
}

} // namespace sojourn::frontend
