// Compares batches that were copied with the same as views of the slot, field by field: for copies to the CPU
// and, where there is one, to a GPU.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "trainer/batch_tensors.h"

namespace hopfeed::testing {

inline void expect_copy(const torch::Tensor& copy, const torch::Tensor& view, torch::Device device,
                        const char* name) {
  ASSERT_EQ(copy.defined(), view.defined()) << name;
  if (!view.defined()) return;
  EXPECT_EQ(copy.device(), device) << name;
  EXPECT_EQ(copy.dtype(), view.dtype()) << name;
  EXPECT_EQ(copy.sizes(), view.sizes()) << name;
  EXPECT_TRUE(torch::equal(copy.cpu(), view)) << name;
  EXPECT_TRUE(view.numel() == 0 || copy.const_data_ptr() != view.const_data_ptr()) << name;
}

inline void expect_copies(const std::map<std::string, torch::Tensor>& copies,
                          const std::map<std::string, torch::Tensor>& views, torch::Device device) {
  ASSERT_EQ(copies.size(), views.size());
  for (const auto& [name, view] : views) expect_copy(copies.at(name), view, device, name.c_str());
}

inline void expect_same_nodes(const NodeTensors& copy, const NodeTensors& view, torch::Device device) {
  expect_copy(copy.x, view.x, device, "x");
  expect_copy(copy.y, view.y, device, "y");
  expect_copy(copy.n_id, view.n_id, device, "n_id");
  EXPECT_EQ(copy.num_sampled_nodes, view.num_sampled_nodes);
  expect_copies(copy.node_arrays, view.node_arrays, device);
}

inline void expect_same_edges(const EdgeTensors& copy, const EdgeTensors& view, torch::Device device) {
  expect_copy(copy.edge_index, view.edge_index, device, "edge_index");
  expect_copy(copy.e_id, view.e_id, device, "e_id");
  EXPECT_EQ(copy.num_sampled_edges, view.num_sampled_edges);
  expect_copies(copy.edge_arrays, view.edge_arrays, device);
}

inline void expect_same_seeds(const SeedTensors& copy, const SeedTensors& view, torch::Device device) {
  expect_copy(copy.input_id, view.input_id, device, "input_id");
  expect_copy(copy.seed_index, view.seed_index, device, "seed_index");
  EXPECT_EQ(copy.batch_size, view.batch_size);
}

/// Expects the same rows; offsets stay in the host's memory.
inline void expect_same_rows(const CompressedRows& copy, const CompressedRows& view, torch::Device device) {
  EXPECT_TRUE(torch::equal(copy.rowptr, view.rowptr));
  expect_copy(copy.col, view.col, device, "col");
  expect_copy(copy.row, view.row, device, "row");
}

inline void expect_same_batch(const BatchTensors& copy, const BatchTensors& view, torch::Device device) {
  expect_same_nodes(copy, view, device);
  expect_same_edges(copy, view, device);
  expect_same_seeds(copy, view, device);
  EXPECT_EQ(copy.links.edge_type, view.links.edge_type);
  expect_copy(copy.links.edge_label_index, view.links.edge_label_index, device, "edge_label_index");
  expect_copy(copy.links.edge_label, view.links.edge_label, device, "edge_label");
}

inline void expect_same_batch(const TypedBatchTensors& copy, const TypedBatchTensors& view,
                              torch::Device device) {
  EXPECT_EQ(copy.seed_type, view.seed_type);
  expect_same_seeds(copy, view, device);
  ASSERT_EQ(copy.nodes.size(), view.nodes.size());
  ASSERT_EQ(copy.edges.size(), view.edges.size());
  for (std::size_t t = 0; t < view.nodes.size(); ++t) expect_same_nodes(copy.nodes[t], view.nodes[t], device);
  for (std::size_t e = 0; e < view.edges.size(); ++e) {
    expect_same_edges(copy.edges[e], view.edges[e], device);
    expect_same_rows(copy.rows(static_cast<int>(e)), view.rows(static_cast<int>(e)), device);
  }
}

}  // namespace hopfeed::testing
