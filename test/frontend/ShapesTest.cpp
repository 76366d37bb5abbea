// SPDX-License-Identifier: Apache-2.0
// Shape rules over fresh random sizes and layouts: the checker compares every op below autograd with
// what the CPU returns.
#include "test/frontend/ShapesCheck.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

namespace sojourn::test {

using at::Tensor;

namespace {

class Shapes : public ::testing::Test {
protected:
  Shapes() {
    seed_ = std::random_device{}();
    random_.seed(seed_);
    at::manual_seed(seed_);
    RecordProperty("seed", static_cast<int>(seed_));
    std::cout << "seed " << seed_ << "\n";
  }

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  /// 0, 1 and odd sizes are common.
  int64_t size() {
    static constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 0};
    return kSizes[pick(0, 7)];
  }

  /// A tensor of these sizes in a random layout: contiguous, permuted, sliced, expanded or channels-last.
  Tensor make(std::vector<int64_t> sizes, at::ScalarType dtype = at::kFloat) {
    auto fill = [&](std::vector<int64_t> shape) {
      return dtype == at::kBool ? at::rand(shape).gt(0.5) : at::rand(shape).mul(5).add(1).to(dtype);
    };
    const int64_t rank = sizes.size();
    switch (pick(0, 5)) {
    case 0:
      if (rank >= 2) {
        std::vector<int64_t> order(rank), inverse(rank), shape(rank);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        for (int64_t i = 0; i < rank; ++i) {
          shape[i] = sizes[order[i]];
          inverse[order[i]] = i;
        }
        return fill(shape).permute(inverse);
      }
      break;
    case 1:
      if (rank >= 1) {
        std::vector<int64_t> shape = sizes;
        int64_t dim = pick(0, rank - 1);
        shape[dim] = shape[dim] * 2 + 1;
        return fill(shape).slice(dim, 1, shape[dim], 2).narrow(dim, 0, sizes[dim]);
      }
      break;
    case 2:
      if (rank == 4) {
        return fill(sizes).contiguous(at::MemoryFormat::ChannelsLast);
      }
      break;
    case 3:
      if (rank >= 1) {
        std::vector<int64_t> shape = sizes;
        shape[pick(0, rank - 1)] = 1;
        return fill(shape).expand(sizes);
      }
      break;
    default: break;
    }
    return fill(sizes);
  }
  std::vector<int64_t> shape(int64_t low = 0, int64_t high = 4) {
    std::vector<int64_t> sizes(pick(low, high));
    for (int64_t &value : sizes) {
      value = size();
    }
    return sizes;
  }
  /// A shape that broadcasts with `sizes`.
  std::vector<int64_t> partner(std::vector<int64_t> sizes) {
    for (int64_t &value : sizes) {
      if (pick(0, 2) == 0) {
        value = 1;
      }
    }
    sizes.erase(sizes.begin(), sizes.begin() + pick(0, sizes.size()));
    return sizes;
  }
  at::ScalarType dtype() {
    static constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                                at::kLong,  at::kInt,    at::kBool};
    return kTypes[pick(0, 6)];
  }
  at::ScalarType real() { return pick(0, 1) ? at::kFloat : at::kDouble; }

  template <class Body>
  void check(int repeats, Body body) {
    CheckShapes checking;
    for (int i = 0; i < repeats; ++i) {
      // Arguments that eager refuses are checked too (the error text); the test goes on.
      try {
        body();
      } catch (const c10::Error &) {
      }
    }
    EXPECT_TRUE(checking.report().failures.empty()) << checking.report().text() << "seed " << seed_;
    EXPECT_GT(checking.report().checked, repeats);
  }

private:
  unsigned seed_;
  std::mt19937 random_;
};

TEST_F(Shapes, elementwise) {
  check(200, [&] {
    auto sizes = shape();
    Tensor a = make(sizes, dtype()), b = make(partner(sizes), dtype()), c = make(partner(sizes), real());
    at::add(a, b);
    at::mul(a, 2.5);
    at::mul(a, 2);
    at::div(a, b);
    at::div(c, c, "floor");
    at::eq(a, b);
    at::lt(a, 1);
    at::where(b.gt(1), a, c);
    at::maximum(a, b);
    at::exp(a);
    at::logical_and(a, b);
    at::atan2(c, c);
    at::addcmul(c, c, c);
    at::clamp(c, 0.5);
    at::sub(c, a);
    at::pow(c, b);
    at::pow(2.0, c);
    at::remainder(c, 2);
  });
}

TEST_F(Shapes, activationsAndTheirBackward) {
  check(75, [&] {
    auto sizes = shape(1);
    Tensor x = make(sizes, real()), g = make(sizes, x.scalar_type());
    x = x.detach().requires_grad_();
    for (const Tensor &y : {at::relu(x), at::gelu(x), at::silu(x), at::sigmoid(x), at::tanh(x), at::leaky_relu(x),
                            at::elu(x), at::softplus(x), at::hardswish(x), at::hardtanh(x), at::log_sigmoid(x),
                            at::dropout(x, 0.4, true), at::mish(x), at::hardsigmoid(x)}) {
      y.backward(g);
    }
  });
}

TEST_F(Shapes, reductionsScansAndSorts) {
  check(100, [&] {
    auto sizes = shape(1);
    Tensor x = make(sizes, dtype()), f = make(sizes, real());
    int64_t dim = pick(-x.dim(), x.dim() - 1);
    bool keep = pick(0, 1);
    at::sum(x);
    at::sum(x, dim, keep);
    at::any(x, dim, keep);
    at::mean(f, dim, keep);
    at::var(f, {dim}, true, keep);
    at::logsumexp(f, dim, keep);
    at::softmax(f, dim);
    at::log_softmax(f, dim);
    at::cumsum(x, dim);
    at::sort(f, dim);
    at::linalg_vector_norm(f, 2, dim, keep);
    at::argmax(f, dim, keep);
    at::amax(f, dim, keep);
    at::max(f, dim, keep);
    at::topk(f, std::min<int64_t>(2, f.size(dim)), dim);
  });
}

TEST_F(Shapes, factorsOfMatrices) {
  check(20, [&] {
    auto sizes = shape(1);
    sizes.push_back(sizes.back());
    Tensor x = make(sizes, pick(0, 1) ? at::kFloat : at::kDouble);
    at::linalg_cholesky_ex(x, pick(0, 1));
  });
}

TEST_F(Shapes, views) {
  check(125, [&] {
    Tensor x = make(shape(1));
    int64_t dim = pick(-x.dim(), x.dim() - 1), other = pick(-x.dim(), x.dim() - 1);
    x.transpose(dim, other);
    x.unsqueeze(pick(-x.dim() - 1, x.dim()));
    x.squeeze();
    x.squeeze(dim);
    x.slice(dim, pick(-3, 3), pick(-3, 6), pick(1, 3));
    x.split(pick(1, 3), dim);
    x.unbind(dim);
    x.unfold(dim, std::min<int64_t>(1, x.size(dim)), 1);
    x.reshape({-1});
    x.flatten();
    x.expand([&] {
      std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
      sizes.insert(sizes.begin(), 3);
      return sizes;
    }());
    x.movedim(dim, other);
    x.view({x.numel(), 1});
    x.diagonal(pick(-1, 1), dim, other);
    x.select(dim, pick(-2, 2));
    if (x.numel() >= 2 && x.is_contiguous()) {
      x.as_strided({2, 1}, {1, 1}, 0);
    }
    x.detach();
    x.permute({1, 0});
    x.t();
  });
}

TEST_F(Shapes, linearAlgebra) {
  check(75, [&] {
    int64_t b = size(), m = size(), k = size(), n = size();
    at::ScalarType type = real();
    Tensor x = make({m, k}, type), w = make({n, k}, type), bias = make({n}, type);
    at::mm(x, w.t());
    at::addmm(bias, x, w.t());
    at::linear(make({b, m, k}, type), w, bias);
    at::bmm(make({b, m, k}, type), make({b, k, n}, type));
    at::baddbmm(make({m, n}, type), make({b, m, k}, type), make({b, k, n}, type));
    at::matmul(make({b, 2, m, k}, type), make({k, n}, type));
    at::mv(x, make({k}, type));
    at::addmv(make({m}, type), x, make({k}, type));
    at::dot(make({k}, type), make({k}, type));
    if (m > 0 && n > 0) {
      at::addr(make({m, n}, type), make({m}, type), bias);
    }
    at::bilinear(make({b, m}, type), make({b, k}, type), make({n, m, k}, type), bias);
  });
}

TEST_F(Shapes, convolutionsAndNormalization) {
  check(60, [&] {
    // 1 x 1 kernels are left to rank 1: their channels-last strides are ambiguous and eager's backends differ.
    const int64_t batch = pick(1, 3), channels = 2 * pick(1, 3), rank = pick(1, 2), kernel = pick(1 + (rank == 2), 3);
    at::ScalarType type = real();
    std::vector<int64_t> sizes{batch, channels}, weights{4, channels}, deconvolution{channels, 3};
    for (int64_t i = 0; i < rank; ++i) {
      sizes.push_back(pick(4, 9));
      weights.push_back(kernel);
      deconvolution.push_back(kernel);
    }
    Tensor x = make(sizes, type).detach().requires_grad_(), w = at::rand(weights, type).requires_grad_();
    if (rank == 2 && pick(0, 1)) {
      w = w.detach().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    }
    Tensor bias = at::rand({4}, type).requires_grad_();
    std::vector<int64_t> stride(rank, pick(1, 2)), padding(rank, pick(0, 1)), dilation(rank, pick(1, 2)), none(rank, 0);
    at::convolution(x, w, bias, stride, padding, dilation, false, none, 1).sum().backward();
    at::convolution(x, at::rand(deconvolution, type).requires_grad_(), {}, stride, padding, dilation, true, none, 1);
    Tensor scale = at::rand({channels}, type).requires_grad_(), mean = at::zeros({channels}, type),
           variance = at::ones({channels}, type);
    for (bool training : {true, false}) {
      at::batch_norm(x, scale, scale, mean, variance, training, 0.1, 1e-5, false).sum().backward();
    }
    at::group_norm(x, 2, scale, scale).sum().backward();
    at::layer_norm(x, x.sizes().slice(2)).sum().backward();
  });
}

TEST_F(Shapes, poolingAndResampling) {
  check(60, [&] {
    at::ScalarType type = real();
    Tensor x = make({pick(1, 3), pick(1, 4), pick(4, 9), pick(4, 9)}, type).detach().requires_grad_();
    Tensor line = make({2, 3, pick(4, 9)}, type);
    bool ceil = pick(0, 1);
    for (const Tensor &y : {at::max_pool2d(x, pick(2, 3), 2, 1, 1, ceil), at::avg_pool2d(x, 3, pick(1, 2), 1, ceil),
                            at::adaptive_avg_pool2d(x, {2, 3}), std::get<0>(at::adaptive_max_pool2d(x, {2, 3})),
                            at::upsample_nearest2d(x, {9, 5}), at::upsample_bilinear2d(x, {9, 5}, ceil)}) {
      y.sum().backward();
    }
    at::max_pool1d(line, 2);
    at::avg_pool1d(line, 2);
    at::adaptive_avg_pool1d(line, 2);
    at::constant_pad_nd(x, {1, -1, 2, 0});
    at::pad(x, {1, 2, 1, 1}, "reflect");
  });
}

TEST_F(Shapes, sampling) {
  check(60, [&] {
    at::ScalarType type = pick(0, 1) == 0 ? at::kFloat : at::kDouble;
    const int64_t batch = pick(1, 3), channels = pick(1, 4);
    Tensor x = make({batch, channels, pick(4, 9), pick(4, 9)}, type).detach().requires_grad_();
    Tensor volume = make({batch, channels, pick(4, 6), pick(4, 6), pick(4, 6)}, type).detach().requires_grad_();
    Tensor pixels = make({batch, channels, pick(4, 9), pick(4, 9)}, at::kByte);
    bool align = pick(0, 1);
    for (const Tensor &y :
         {at::_upsample_bilinear2d_aa(x, {3, 11}, align), at::_upsample_bicubic2d_aa(x, {3, 11}, align),
          at::max_unpool2d(x, at::zeros_like(x, at::kLong), {9, 5}),
          at::max_unpool3d(volume, at::zeros_like(volume, at::kLong), {7, 6, 5}, {2, 2, 2}, {0, 0, 0}),
          std::get<0>(at::fractional_max_pool2d(x, {2, 1}, {3, 2}, at::rand({batch, channels, 2}, type))),
          std::get<0>(at::fractional_max_pool3d(volume, {2, 1, 2}, {2, 3, 1}, at::rand({batch, channels, 3}, type))),
          at::grid_sampler(x, make({batch, 2, 3, 2}, type), pick(0, 2), pick(0, 2), align),
          at::grid_sampler(volume, make({batch, 2, 3, 1, 3}, type), pick(0, 1), pick(0, 2), align)}) {
      y.sum().backward();
    }
    at::_upsample_bilinear2d_aa(pixels, {3, 11}, align);
    at::upsample_bicubic2d(pixels, {3, 11}, align);
  });
}

TEST_F(Shapes, histograms) {
  check(100, [&] {
    const int64_t bins = pick(1, 9), count = size();
    Tensor x = make({count, 3}, real()), y = at::randint(bins, {count}, pick(0, 1) == 0 ? at::kLong : at::kByte);
    at::histc(x, bins, -1, 4.5);
    at::histogram(x, bins, at::ArrayRef<double>({0.5, 2}), make({count, 3}, x.scalar_type()), /*density=*/true);
    at::histogram(x, at::linspace(0, 5, bins + 1, x.options()));
    at::bincount(y, {}, bins);
    at::bincount(y, make({count}, real()), bins);
    at::bincount(y, make({count}, at::kInt), bins);
  });
}

TEST_F(Shapes, indexing) {
  check(100, [&] {
    const int64_t rows = pick(1, 5), columns = pick(1, 5), depth = pick(1, 4);
    Tensor x = make({rows, columns, depth}, dtype());
    Tensor i = at::randint(rows, {pick(1, 3), 1}), j = at::randint(columns, {1, pick(1, 3)}),
           k = at::randint(depth, {2});
    c10::List<std::optional<Tensor>> front({i, j}), apart({i, std::nullopt, k.slice(0, 0, 1)}),
        last({std::nullopt, std::nullopt, k});
    at::index(x, front);
    at::index(x, apart);
    at::index(x, last);
    at::index_put(x, last, at::zeros({1}, x.scalar_type()));
    at::index_select(x, 1, j.flatten());
    Tensor g = at::randint(columns, {rows, 2, depth});
    at::gather(x, 1, g);
    at::scatter(x, 1, g, make({rows, 2, depth}, x.scalar_type()));
    at::scatter_add(x, 1, g, make({rows, 2, depth}, x.scalar_type()));
    at::index_add(x, 0, at::zeros({2}, at::kLong), make({2, columns, depth}, x.scalar_type()));
    at::masked_fill(x, make({rows, 1, depth}, at::kBool), 1);
    Tensor w = make({rows, depth}, real()).detach().requires_grad_();
    at::embedding(w, i).sum().backward();
    at::cat({x, make({rows, pick(0, 3), depth}, dtype())}, 1);
    at::stack({x, x}, pick(-4, 3));
    at::repeat_interleave(x, 2, 1);
    x.repeat({2, 1, 1, 2});
    at::roll(x, {1}, {0});
    at::flip(x, {0, 2});
    at::tril(x);
    at::take(x, i);
  });
}

TEST_F(Shapes, losses) {
  check(60, [&] {
    const int64_t n = pick(1, 5), c = pick(2, 5), reduction = pick(0, 2);
    at::ScalarType type = real();
    Tensor x = make({n, c}, type).detach().requires_grad_(), t = at::randint(c, {n});
    Tensor y = make({n, c}, type), p = at::rand({n, c}, type).requires_grad_();
    auto backward = [](const Tensor &loss) { loss.sum().backward(); };
    backward(at::nll_loss(x, t, {}, reduction));
    backward(at::cross_entropy_loss(x, t, {}, reduction));
    backward(at::mse_loss(x, y, reduction));
    backward(at::l1_loss(x, y, reduction));
    backward(at::smooth_l1_loss(x, y, reduction));
    backward(at::huber_loss(x, y, reduction));
    backward(at::binary_cross_entropy(p, at::rand({n, c}, type), {}, reduction));
    backward(at::binary_cross_entropy_with_logits(x, at::rand({n, c}, type), {}, {}, reduction));
    backward(at::kl_div(x, at::rand({n, c}, type), reduction));
    backward(at::nll_loss2d(make({n, c, 3, 2}, type).contiguous().detach().requires_grad_(), at::randint(c, {n, 3, 2}),
                            {}, reduction));
  });
}

TEST_F(Shapes, factoriesRandomAndCopies) {
  check(75, [&] {
    auto sizes = shape();
    Tensor x = make(sizes, dtype());
    at::zeros(sizes);
    at::full(sizes, 3);
    at::full(sizes, 2.5);
    at::arange(pick(0, 9));
    at::arange(0, pick(1, 9), 0.3);
    at::linspace(0, 1, pick(0, 5));
    at::eye(pick(0, 4), pick(0, 4));
    at::zeros_like(x);
    at::ones_like(x, at::kDouble);
    x.new_zeros(sizes);
    x.clone();
    x.to(at::kDouble);
    x.contiguous();
    at::empty_strided({2, 3}, {1, 2});
    at::rand(sizes);
    at::randint(5, sizes);
    at::randperm(pick(0, 5));
    at::bernoulli(at::rand(sizes));
    at::zeros(sizes).uniform_().normal_().copy_(x);
    at::scalar_tensor(2.5);
    at::multinomial(at::rand({3, 4}), 2);
  });
}

TEST_F(Shapes, lists) {
  check(30, [&] {
    std::vector<Tensor> p, g, s;
    for (int64_t i = 0; i < 3; ++i) {
      auto sizes = shape(1);
      p.push_back(at::rand(sizes));
      g.push_back(make(sizes));
      s.push_back(at::zeros(sizes));
    }
    at::_foreach_add(p, g, 0.5);
    at::_foreach_add_(p, g, 0.5);
    at::_foreach_mul(p, 2);
    at::_foreach_mul_(s, 0.9);
    at::_foreach_lerp_(s, g, 0.1);
    at::_foreach_addcmul_(s, g, g, 0.1);
    at::_foreach_sqrt(s);
    at::_foreach_div_(p, std::vector<at::Scalar>{1.0, 2.0, 3.0});
    at::_foreach_addcdiv_(p, s, at::_foreach_add(s, 1e-3), -0.1);
    at::_foreach_norm(p, 2);
    at::_foreach_maximum_(s, p);
    at::_foreach_neg(p);
    at::_foreach_zero_(s);
    at::_foreach_copy_(s, p);
  });
}

} // namespace
} // namespace sojourn::test
