// The JSON of the options: workers, servers, checkpoints and BatchOptions::hash() read it, so it stays, byte
// for byte, whatever writes it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/batch/batch_options.h"
#include "core/batch/batch_spec.h"

namespace hopfeed {
namespace {

using Names = std::vector<std::string>;

struct Golden {
  BatchOptions options;
  std::string text;
  std::uint64_t hash;
};

std::vector<Golden> golden() {
  return {{{},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[15,10,5],"replace":false,"seed_time":"","temporal_strategy":"un)"
           R"(iform","time":"","time_window":0,"weight":""})",
           3875830914116642131u},
          {{.fanouts = {15, -1, 0},
            .edge_fanouts = {{"a__to__b", {3, 2, 1}}, {"rev", {0, 0, -1}}},
            .replace = true,
            .weight = "w"},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{"a__t)"
           R"(o__b":[3,2,1],"rev":[0,0,-1]},"edge_ids":false,"fanouts":[15,-1,0],"replace":true,"seed_)"
           R"(time":"","temporal_strategy":"uniform","time":"","time_window":0,"weight":"w"})",
           11310514012744398615u},
          {{.fanouts = {},
            .time = "t",
            .seed_time = "s",
            .temporal_strategy = TemporalStrategy::kLast,
            .time_window = 9223372036854775807},
           R"({"attrs":null,"dataset_ids":false,"disjoint":true,"edge_attrs":[],"edge_fanouts":{},"edg)"
           R"(e_ids":false,"fanouts":[],"replace":false,"seed_time":"s","temporal_strategy":"last","ti)"
           R"(me":"t","time_window":9223372036854775807,"weight":""})",
           7745353653044755328u},
          {{.fanouts = {4, 3},
            .labor = true,
            .labor_seeds = 8192,
            .edge_ids = true,
            .dataset_ids = true,
            .attrs = Names{},
            .edge_attrs = {"w", "t"}},
           R"({"attrs":[],"dataset_ids":true,"disjoint":false,"edge_attrs":["w","t"],"edge_fanouts":{})"
           R"(,"edge_ids":true,"fanouts":[4,3],"labor":true,"labor_seeds":8192,"replace":false,"seed_t)"
           R"(ime":"","temporal_strategy":"uniform","time":"","time_window":0,"weight":""})",
           6465065986164040954u},
          {{.fanouts = {2},
            .disjoint = true,
            .subgraph = Subgraph::kBidirectional,
            .keep_orig_edges = true,
            .attrs = Names{"x", "y"}},
           R"({"attrs":["x","y"],"dataset_ids":false,"disjoint":true,"edge_attrs":[],"edge_fanouts":{})"
           R"(,"edge_ids":false,"fanouts":[2],"keep_orig_edges":true,"replace":false,"seed_time":"","s)"
           R"(ubgraph":"bidirectional","temporal_strategy":"uniform","time":"","time_window":0,"weight)"
           R"(":""})",
           17027527031027632386u},
          {{.fanouts = {-1, -1}, .subgraph = Subgraph::kInduced},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[-1,-1],"replace":false,"seed_time":"","subgraph":"induced","tem)"
           R"(poral_strategy":"uniform","time":"","time_window":0,"weight":""})",
           13972878502232185193u},
          {{.sampler = "walk",
            .walk = {.length = 20, .per_seed = 3, .p = 0.25, .q = 4, .metapath = {"to", "rev_to"}}},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[15,10,5],"replace":false,"sampler":"walk","seed_time":"","tempo)"
           R"(ral_strategy":"uniform","time":"","time_window":0,"walk":{"length":20,"metapath":["to",")"
           R"(rev_to"],"p":0.25,"per_seed":3,"q":4.0},"weight":""})",
           3738248190218485392u},
          {{.sampler = "cluster", .cluster = "part", .fanouts = {-1}, .subgraph = Subgraph::kInduced},
           R"({"attrs":null,"cluster":"part","dataset_ids":false,"disjoint":false,"edge_attrs":[],"edg)"
           R"(e_fanouts":{},"edge_ids":false,"fanouts":[-1],"replace":false,"sampler":"cluster","seed_)"
           R"(time":"","subgraph":"induced","temporal_strategy":"uniform","time":"","time_window":0,"w)"
           R"(eight":""})",
           18013030766789541288u},
          {{.sampler = "my\"own", .sampler_options = "depth=3\n\u00e4"},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[15,10,5],"replace":false,"sampler":"my\"own","sampler_options":)"
           R"("depth=3\nä","seed_time":"","temporal_strategy":"uniform","time":"","time_window":0,"wei)"
           R"(ght":""})",
           11573018744978989683u},
          {{.fanouts = {5}, .link = {.edge_type = "to"}},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[5],"link":{"amount":1.0,"dst_weight":"","edge_type":"to","exclu)"
           R"(de":"self","negatives":"none","src_weight":"","strict":false},"replace":false,"seed_time)"
           R"(":"","temporal_strategy":"uniform","time":"","time_window":0,"weight":""})",
           15885325740138487896u},
          {{.fanouts = {5},
            .link = {.edge_type = "a__to__b",
                     .negatives = {.mode = NegativeMode::kBinary,
                                   .amount = 1.5,
                                   .strict = true,
                                   .src_weight = "ws",
                                   .dst_weight = "wd"},
                     .exclude = Exclude::kReverse}},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[5],"link":{"amount":1.5,"dst_weight":"wd","edge_type":"a__to__b)"
           R"(","exclude":"reverse","negatives":"binary","src_weight":"ws","strict":true},"replace":fa)"
           R"(lse,"seed_time":"","temporal_strategy":"uniform","time":"","time_window":0,"weight":""})",
           17291837968708727975u},
          {{.fanouts = {5},
            .link = {.edge_type = "to",
                     .negatives = {.mode = NegativeMode::kTriplet, .amount = 3},
                     .exclude = Exclude::kNone}},
           R"({"attrs":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],"edge_fanouts":{},"ed)"
           R"(ge_ids":false,"fanouts":[5],"link":{"amount":3.0,"dst_weight":"","edge_type":"to","exclu)"
           R"(de":"none","negatives":"triplet","src_weight":"","strict":false},"replace":false,"seed_t)"
           R"(ime":"","temporal_strategy":"uniform","time":"","time_window":0,"weight":""})",
           1017390173951408802u}};
}

TEST(OptionsText, OfEveryField_Stays) {
  for (const Golden& one : golden()) {
    EXPECT_EQ(one.options.to_json(), one.text);
    EXPECT_EQ(one.options.hash(), one.hash) << one.text;
    EXPECT_EQ(BatchOptions::from_json(one.text).to_json(), one.text);
  }
}

TEST(OptionsText, OfASpec_Stays) {
  const BatchSpec spec{.dataset = "products",
                       .fingerprint = "0123",
                       .batch = golden()[10].options,
                       .seeds = {.sha256 = "cd"},
                       .shuffle = false,
                       .seed = ~std::uint64_t{0},
                       .sampler_sha256 = "ab"};
  EXPECT_EQ(spec.to_json(),
            R"({"batch":{"attrs":null,"cluster":null,"dataset_ids":false,"disjoint":false,"edge_attrs":)"
            R"([],"edge_fanouts":{},"edge_ids":false,"fanouts":[5],"keep_orig_edges":null,"labor":null,)"
            R"("labor_seeds":null,"link":{"amount":1.5,"dst_weight":"wd","edge_type":"a__to__b","exclud)"
            R"(e":"reverse","negatives":"binary","src_weight":"ws","strict":true},"replace":false,"samp)"
            R"(ler":null,"sampler_options":null,"seed_time":"","subgraph":null,"temporal_strategy":"uni)"
            R"(form","time":"","time_window":0,"walk":null,"weight":""},"dataset":"products","fingerpri)"
            R"(nt":"0123","rules":1,"sampler_sha256":"ab","seed":18446744073709551615,"seeds":{"node_ty)"
            R"(pe":"","sha256":"cd","split":""},"shuffle":false,"version":1})");
}

// Older clients and checkpoints know nothing of it, and older builds read what does not set it.
TEST(OptionsText, OfAYoungerOption_HasItOnlyWhereItIsSet) {
  const BatchOptions unset{.fanouts = {2}, .time = "t", .disjoint = true};
  EXPECT_EQ(unset.to_json().find("time_start"), std::string::npos);
  for (const std::int64_t start : {std::int64_t{0}, std::int64_t{-7}, INT64_MIN, INT64_MAX}) {
    BatchOptions set = unset;
    set.time_start = start;
    EXPECT_NE(set.to_json().find("\"time_start\":" + std::to_string(start)), std::string::npos);
    EXPECT_EQ(BatchOptions::from_json(set.to_json()), set);
    EXPECT_NE(set.hash(), unset.hash());
  }
  BatchSpec spec{
      .dataset = "d", .fingerprint = "f", .batch = unset, .seeds = {.node_type = "n", .split = "train"}};
  EXPECT_EQ(spec.to_json().find("time_start"), std::string::npos);
  EXPECT_EQ(BatchSpec::from_json(spec.to_json()).batch.time_start, std::nullopt);
  spec.batch.time_start = -3;
  EXPECT_EQ(BatchSpec::from_json(spec.to_json()).batch.time_start, -3);
}

}  // namespace
}  // namespace hopfeed
