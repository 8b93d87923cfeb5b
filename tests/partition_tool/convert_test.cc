// Attributes with a scale per row: that a dataset has what the rule makes of another's rows, those of edges
// too, by any number of threads; that all other commands keep them; and what is refused.
#include "partition_tool/convert_attrs.h"

#include <fmt/format.h>

#include <limits>

#include "core/base/half_floats.h"
#include "core/base/quantised_rows.h"
#include "tests/partition_tool/program_fixture.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

using testing::no_progress;
using Bytes = std::vector<std::byte>;
using enum ElementType;

constexpr std::int64_t kWidth = 15, kEdgeWidth = 3;

/// A row of an edge attribute, by the edge's id.
float edge_value(std::int64_t edge, std::int64_t column) {
  return static_cast<float>(edge * 7 % 31 - 15) * static_cast<float>(column + 1) / 3;
}

testing::TinyGraph tiny() {
  return testing::random_graph({.num_nodes = 120, .num_edges = 900, .x_width = kWidth});
}

/// x is [N, 3, 5], f [E, 3] of the edges.
RawGraph graph() {
  RawGraph graph = testing::raw_graph_of(tiny());
  graph.nodes[0].attrs[0].shape = {3, 5};
  graph.edges[0].attrs.push_back(
      {.name = "f",
       .type = kFloat32,
       .shape = {kEdgeWidth},
       .read_rows = [](std::int64_t, std::span<const std::int64_t> ids, std::span<std::byte> rows) {
         std::vector<float> values;
         for (const std::int64_t id : ids)
           for (std::int64_t column = 0; column < kEdgeWidth; ++column)
             values.push_back(edge_value(id, column));
         std::memcpy(rows.data(), values.data(), rows.size());
       }});
  return graph;
}

Bytes expected_row(ElementType type, std::span<const float> values) {
  Bytes row(static_cast<std::size_t>(quantised_row_bytes(type, std::ssize(values))));
  quantise_row(type, values, row.data());
  return row;
}

class Convert : public PartitionProgram {
 protected:
  Convert() { testing::write_dataset(work() / "plain", graph()); }

  /// The dataset `from` with attributes converted; its folder.
  std::filesystem::path convert(const std::filesystem::path& from,
                                const std::map<std::string, ElementType>& attrs, int threads = 1) {
    const std::filesystem::path to = work() / fmt::format("made{}", made_++);
    const Dataset dataset(from);
    ConvertedGraph converted = convert_attrs(dataset, {.attrs = attrs, .threads = threads}, no_progress);
    testing::write_dataset(to, converted.graph, {.hotness = {.threads = threads}});
    testing::verify(to);
    return to;
  }
  static std::string fingerprint(const std::filesystem::path& folder) {
    return Dataset(folder).meta().fingerprint;
  }

 private:
  int made_ = 0;
};

TEST_F(Convert, RowsAreWhatTheRuleMakes_OfNodesAndEdges) {
  const testing::TinyGraph plain = tiny();
  for (const ElementType type : {kInt8Scaled, kInt4Scaled}) {
    const std::filesystem::path folder = convert(work() / "plain", {{"x", type}, {"f", type}});
    EXPECT_EQ(fingerprint(convert(work() / "plain", {{"x", type}, {"f", type}}, 3)), fingerprint(folder));
    EXPECT_NE(fingerprint(folder), fingerprint(work() / "plain"));
    const Dataset dataset(folder);
    const AttrMeta& meta = *find_attr(dataset.meta().node_types[0].attrs, "x");
    EXPECT_EQ(meta.shape, (std::vector<std::int64_t>{3, 5}));
    EXPECT_EQ(meta.row_bytes(), type == kInt8Scaled ? 19 : 12);
    const AttrView x = dataset.attr(0, "x"), f = dataset.edge_attr(0, "f");
    EXPECT_EQ(x.row_elements, kWidth);
    for (std::int64_t v = 0; v < plain.num_nodes; ++v) {
      const std::byte* row = x.parts[0] + dataset.dataset_id(0, v) * x.stride_bytes;
      ASSERT_EQ(Bytes(row, row + x.row_bytes),
                expected_row(type, std::span(plain.x).subspan(v * kWidth, kWidth)));
    }
    const CscView csc = dataset.csc(0);
    for (std::int64_t e = 0; e < csc.num_edges; ++e) {
      const std::int64_t id = static_cast<const std::int32_t*>(csc.parts[0].edge_ids)[e];
      const std::byte* row = f.parts[0] + e * f.stride_bytes;
      ASSERT_EQ(Bytes(row, row + f.row_bytes),
                expected_row(type, std::vector{edge_value(id, 0), edge_value(id, 1), edge_value(id, 2)}));
    }
  }
}

TEST_F(Convert, BackInFloat32_AreTheValues) {
  const testing::TinyGraph plain = tiny();
  for (const ElementType type : {kInt8Scaled, kInt4Scaled}) {
    const Dataset back(convert(convert(work() / "plain", {{"x", type}}), {{"x", kFloat32}}));
    const AttrView x = back.attr(0, "x");
    for (std::int64_t v = 0; v < plain.num_nodes; ++v) {
      const Bytes row = expected_row(type, std::span(plain.x).subspan(v * kWidth, kWidth));
      std::vector<float> values(kWidth);
      dequantise(
          {.type = type, .elements = kWidth, .stride_bytes = std::ssize(row), .count = 1, .rows = row.data()},
          values.data());
      ASSERT_EQ(std::memcmp(x.parts[0] + back.dataset_id(0, v) * x.stride_bytes, values.data(), 4 * kWidth),
                0);
    }
  }
}

TEST_F(Convert, OfHalfFloats_AreThoseOfTheirValues) {
  for (const ElementType half : {kFloat16, kBfloat16}) {
    const std::filesystem::path halves = convert(work() / "plain", {{"x", half}}),
                                values = convert(halves, {{"x", kFloat32}});
    EXPECT_EQ(fingerprint(convert(halves, {{"x", kInt8Scaled}})),
              fingerprint(convert(values, {{"x", kInt8Scaled}})));
  }
}

TEST_F(Convert, EveryOtherCommandKeepsThem) {
  succeed("convert plain small --attr x=int4 --attr f=int8 --json small.json");
  EXPECT_EQ(read_json("small.json")["convert"][0]["after"], "int4_scaled");
  EXPECT_EQ(read_json("small.json")["convert"][1]["after"], "int8_scaled");
  EXPECT_NE(succeed("inspect small").out.find("attribute x: int4_scaled [3, 5], 12 bytes from row to row"),
            std::string::npos);
  succeed("hotness small by-degree --policy degree");
  succeed("partition small cut --parts 3");
  for (const char* folder : {"small", "by-degree", "cut"}) {
    succeed(std::string("verify ") + folder);
    EXPECT_EQ(fingerprint(work() / folder), fingerprint(work() / "small")) << folder;
  }
  // The edges that stay have the rows that they had.
  succeed("deduplicate small once");
  succeed("deduplicate plain once-plain");
  succeed("convert once-plain once-small --attr x=int4 --attr f=int8");
  EXPECT_EQ(fingerprint(work() / "once"), fingerprint(work() / "once-small"));
  refuse("add-self-loops small out --fill f=1", "attributes of type int8_scaled cannot be filled in");
  refuse("convert small out --attr x=int8",
         "'x' of node type 'node' is int4_scaled and cannot become int8_scaled");
  refuse("convert small out --attr x=float16", "cannot become float16");
  refuse("convert small out --attr y=int8", "'y' of node type 'node' holds labels");
  refuse("convert small out --attr x=int16", "'int16' is nothing that attributes can become");
}

TEST_F(Convert, WhatNoScaleHolds_IsRefusedByItsPlace) {
  const auto refused = [&](const RawGraph& bad, const std::map<std::string, ElementType>& attrs,
                           const std::string& part) {
    std::filesystem::remove_all(work() / "bad");
    testing::write_dataset(work() / "bad", bad);
    expect_refused([&] { convert(work() / "bad", attrs, 2); }, part, ErrorCode::kInvalid);
  };
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    testing::TinyGraph tiny_graph = tiny();
    tiny_graph.x[17 * kWidth + 4] = value;
    refused(
        testing::raw_graph_of(tiny_graph), {{"x", kInt8Scaled}},
        "attribute 'x' of node type 'node': the row of node 17 is NaN or infinite in column 4, and no scale");
  }
  RawGraph bad = graph();
  bad.edges[0].attrs[0].read_rows = [](std::int64_t, std::span<const std::int64_t>,
                                       std::span<std::byte> rows) {
    std::ranges::fill(rows, std::byte{0xFF});
  };
  refused(bad, {{"f", kInt4Scaled}},
          "attribute 'f' of edge type 'node__to__node': the row of in-edge 0 of node ");
  RawGraph weighted = graph();
  weighted.edges[0].attrs[0].shape = {};
  weighted.edges[0].attrs[0].read_rows = [](std::int64_t, std::span<const std::int64_t> ids,
                                            std::span<std::byte> rows) {
    const std::vector<float> ones(ids.size(), 1);
    std::memcpy(rows.data(), ones.data(), rows.size());
  };
  weighted.edges[0].weights = {"f"};
  refused(weighted, {{"f", kInt8Scaled}}, "is a weight that edges are drawn by");
}

}  // namespace
}  // namespace hopfeed
