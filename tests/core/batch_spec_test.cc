// The one form of what decides a batch's bytes: there and back, whole comparison, and what it refuses by
// name.
#include "core/batch/batch_spec.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/base/sha256.h"

namespace hopfeed {
namespace {

BatchSpec spec_of_everything() {
  BatchSpec spec{.dataset = "products",
                 .fingerprint = "0123456789abcdef0123456789abcdef",
                 .batch = {.fanouts = {15, 10}, .edge_fanouts = {{"to", {3, 2}}}, .edge_ids = true},
                 .seeds = {.node_type = "paper", .split = "train"},
                 .shuffle = false,
                 .seed = ~std::uint64_t{0},
                 .sampler_sha256 = "ab"};
  return spec;
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

TEST(BatchSpec, ThereAndBack_IsTheSame) {
  const BatchSpec spec = spec_of_everything();
  EXPECT_EQ(BatchSpec::from_json(spec.to_json()), spec);
  EXPECT_EQ(BatchSpec::from_json(spec.to_json()).to_json(), spec.to_json());
  BatchSpec links = spec;
  links.batch.link = {.edge_type = "to", .negatives = {.mode = NegativeMode::kBinary}};
  links.seeds = {.sha256 = "cd"};
  EXPECT_EQ(BatchSpec::from_json(links.to_json()), links);
}

TEST(BatchSpec, TheTextOfVersionOne_Stays) {
  EXPECT_EQ(
      BatchSpec({.dataset = "d",
                 .fingerprint = "f",
                 .batch = {.fanouts = {2}},
                 .seeds = {.node_type = "node", .split = "train"},
                 .seed = 7})
          .to_json(),
      R"({"batch":{"attrs":null,"cluster":null,"dataset_ids":false,"disjoint":false,"edge_attrs":[],)"
      R"("edge_fanouts":{},)"
      R"("edge_ids":false,"fanouts":[2],"keep_orig_edges":null,"labor":null,"labor_seeds":null,"link":null,)"
      R"("replace":false,"sampler":null,"sampler_options":null,"seed_time":"",)"
      R"("subgraph":null,"temporal_strategy":"uniform",)"
      R"("time":"","time_window":0,"walk":null,"weight":""},"dataset":"d","fingerprint":"f","rules":)" +
          std::to_string(BatchSpec::kRules) +
          R"(,"sampler_sha256":"","seed":7,"seeds":{"node_type":"node","sha256":"","split":"train"},)"
          R"("shuffle":true,"version":1})");
}

TEST(BatchSpec, KeysThatAreUnknownMissingTwiceOrOfAnotherKind_AreNamed) {
  const std::string text = spec_of_everything().to_json();
  const auto error = [&](const std::string& from, const std::string& to) {
    return refused([&] { BatchSpec::from_json(replaced(text, from, to)); });
  };
  EXPECT_EQ(error("\"shuffle\":false", "\"shuffle\":false,\"path\":\"/x\""),
            "invalid: the batch spec has the unknown key 'path'");
  EXPECT_EQ(error("\"shuffle\":false,", ""), "invalid: the batch spec lacks the key 'shuffle'");
  EXPECT_EQ(error("\"shuffle\":false", "\"shuffle\":false,\"shuffle\":true"),
            "invalid: the batch spec has the key 'shuffle' twice");
  EXPECT_EQ(error("\"split\":\"train\"", "\"split\":\"train\",\"mask\":1"),
            "invalid: 'seeds' of the batch spec has the unknown key 'mask'");
  EXPECT_EQ(error("\"edge_ids\":true", "\"edge_ids\":true,\"e_id\":1"),
            "invalid: the batch has the unknown key 'e_id'");
  EXPECT_EQ(error("\"edge_ids\":true,", ""), "invalid: the batch lacks the key 'edge_ids'");
  EXPECT_EQ(error("\"shuffle\":false", "\"shuffle\":0"),
            "invalid: 'shuffle' of the batch spec is 0; give true or false");
  EXPECT_EQ(error("\"dataset\":\"products\"", "\"dataset\":7"),
            "invalid: 'dataset' of the batch spec is 7; give a text");
  EXPECT_NE(error("\"sha256\":\"\"", "\"sha256\":\"ab\"").find("one of the two"), std::string::npos);
  EXPECT_EQ(error("\"labor\":null,", ""), "invalid: 'batch' of the batch spec lacks the key 'labor'");
  EXPECT_NE(error("\"node_type\":\"paper\"", "\"node_type\":\"\"").find("name a node type"),
            std::string::npos);
  EXPECT_NE(error("\"version\":1", "\"version\":2").find("version: the batch spec is of version 2"),
            std::string::npos);
  EXPECT_EQ(refused([] { BatchSpec::from_json("[1"); }),
            "invalid: the batch spec is no JSON: line 1, column 3: it ends in the middle");
  EXPECT_EQ(refused([] { BatchSpec::from_json("[1]"); }), "invalid: the batch spec is no JSON object");
}

TEST(BatchSpec, NumbersBeyondTheirRange_AreRefusedByName) {
  BatchSpec walk = spec_of_everything();
  walk.batch = {.sampler = BatchOptions::kWalkSampler, .walk = {.length = 5, .p = 0.5}};
  BatchSpec links = spec_of_everything();
  links.batch.link = {.edge_type = "to", .negatives = {.mode = NegativeMode::kBinary, .amount = 2}};
  links.seeds = {.sha256 = "cd"};
  const auto error = [](const BatchSpec& spec, const std::string& from, const std::string& to) {
    return refused([&] { BatchSpec::from_json(replaced(spec.to_json(), from, to)); });
  };
  const std::string fanouts = "; give a list of whole numbers from -1 to 65535";
  for (const auto& [number, shown] : {std::pair{"9223372036854775808", "9223372036854775808"},
                                      {"18446744073709551615", "18446744073709551615"},
                                      {"99999999999999999999", "1e+20"},
                                      {"-2", "-2"},
                                      {"1.5", "1.5"},
                                      {"\"10\"", "\"10\""},
                                      {"null", "null"}}) {
    EXPECT_EQ(error(spec_of_everything(), "[15,10]", std::string("[15,") + number + "]"),
              std::string("invalid: 'fanouts' of the batch is [15,") + shown + "]" + fanouts);
    EXPECT_EQ(error(spec_of_everything(), "[3,2]", std::string("[3,") + number + "]"),
              std::string("invalid: 'to' of 'edge_fanouts' of the batch is [3,") + shown + "]" + fanouts);
  }
  const std::string seed = "18446744073709551615";
  for (const char* number : {"-1", "0.5", "18446744073709551616"})
    EXPECT_NE(error(spec_of_everything(), seed, number).find("; give a whole number from 0 to " + seed),
              std::string::npos)
        << number;
  for (const char* number : {"1.5", "1e99", "2147483648", "-1", "9223372036854775809"})
    EXPECT_EQ(error(spec_of_everything(), "\"rules\":1", std::string("\"rules\":") + number)
                  .find("invalid: 'rules' of the batch spec is "),
              0U)
        << number;
  EXPECT_EQ(error(spec_of_everything(), "\"time_window\":0", "\"time_window\":9223372036854775808"),
            "invalid: 'time_window' of the batch is 9223372036854775808; give a whole number from 0 to "
            "9223372036854775807");
  EXPECT_EQ(error(spec_of_everything(), seed, "1e999"),
            "invalid: the batch spec is no JSON: the number 1e999 is too large");
  EXPECT_EQ(error(walk, ",\"p\":0.5", ""), "invalid: 'walk' of the batch lacks the key 'p'");
  EXPECT_EQ(error(walk, "\"p\":0.5", "\"p\":[]"), "invalid: 'p' of 'walk' of the batch is []; give a number");
  EXPECT_EQ(
      error(walk, "\"length\":5", "\"length\":18446744073709551615")
          .find("invalid: 'length' of 'walk' of the batch is 18446744073709551615; give a whole number"),
      0U);
  EXPECT_EQ(error(walk, "\"metapath\":[]", "\"metapath\":[1]"),
            "invalid: 'metapath' of 'walk' of the batch is [1]; give a list of texts");
  EXPECT_EQ(error(links, "\"amount\":2.0", "\"amount\":\"2\""),
            "invalid: 'amount' of 'link' of the batch is \"2\"; give a number");
  EXPECT_EQ(error(links, "\"src_weight\":\"\",", ""),
            "invalid: 'link' of the batch lacks the key 'src_weight'");
}

TEST(BatchSpec, TextThatNestsDeep_IsRefusedBeforeItIsRead) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(refused([&] { BatchSpec::from_json(deep); }),
            "invalid: the batch spec is no JSON: its brackets nest deeper than 32");
}

TEST(BatchSpec, AreComparedWholeAndByParts) {
  const BatchSpec one = spec_of_everything();
  BatchSpec other = one;
  EXPECT_EQ(one, other);
  other.batch.fanouts = {15, 11};
  EXPECT_NE(one, other);
  EXPECT_EQ(other.parts().at("batch.fanouts"), "[15,11]");
  EXPECT_FALSE(one.parts().contains("batch.labor"));
  BatchSpec timed = one;
  timed.batch.time = "t";  // whose batches are disjoint, said or not
  EXPECT_EQ(BatchSpec::from_json(timed.to_json()), timed);
  other.rules = 99;
  EXPECT_EQ(refused([&] { other.require_rules(); }).find("version: the batches are of rules 99"), 0U);
}

TEST(Sha256, IsThatOfTheStandardsExample) {
  const std::string abc = "abc";
  EXPECT_EQ(sha256(std::as_bytes(std::span(abc))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace hopfeed
