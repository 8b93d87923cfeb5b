// Samplers beside the neighbour sampler, and seeds that are no split, through worker mode: the same bytes as
// in one process, whatever the number of workers and partitions, and after a worker's death. Plugins that
// cannot be used.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "core/base/limits.h"
#include "core/sampler/sampler_plugin.h"
#include "tests/worker_mode/faults_fixture.h"
#include "tests/worker_mode/same_bytes.h"

namespace hopfeed {
namespace {

std::string plugin(const std::string& name) { return testing::program("lib" + name + ".so"); }

struct Kind {
  const char* name;
  void (*change)(LoaderOptions&);
};

class SamplersThroughWorkers : public LoaderTestWithin<>, public ::testing::WithParamInterface<Kind> {
 protected:
  static LoaderOptions options_of_kind(int parts) {
    LoaderOptions o = options(parts);
    o.batch = {.edge_ids = true};
    GetParam().change(o);
    for (const std::string& library : o.execution.plugins) load_sampler_plugin(library);  // for the oracle
    return o;
  }
};

TEST_P(SamplersThroughWorkers, WorkersAndPartitions_GiveTheSameBytes) {
  expect_same_bytes_of_workers_and_partitions([&](int parts) { return options_of_kind(parts); });
}

TEST_P(SamplersThroughWorkers, WorkerKilled_TrainerGetsTheSameBytes) {
  expect_same_bytes_after_a_kill([&](int parts) { return options_of_kind(parts); });
}

void walk(LoaderOptions& o) {
  o.batch.sampler = BatchOptions::kWalkSampler;
  o.batch.walk = {.length = 6, .per_seed = 3};
}

INSTANTIATE_TEST_SUITE_P(Kinds, SamplersThroughWorkers,
                         ::testing::Values(Kind{"Walk", walk},
                                           Kind{"Node2vec",
                                                [](LoaderOptions& o) {
                                                  walk(o);
                                                  o.batch.walk.p = 0.3;
                                                  o.batch.walk.q = 3;
                                                }},
                                           Kind{"WalksInduced",
                                                [](LoaderOptions& o) {
                                                  walk(o);
                                                  o.batch.subgraph = Subgraph::kInduced;
                                                }},
                                           Kind{"Bidirectional",
                                                [](LoaderOptions& o) {
                                                  o.batch.subgraph = Subgraph::kBidirectional;
                                                  o.batch.keep_orig_edges = true;
                                                }},
                                           Kind{"Clusters",
                                                [](LoaderOptions& o) {
                                                  o.batch.sampler = BatchOptions::kClusterSampler;
                                                  o.batch.cluster = "y";
                                                  o.batch.subgraph = Subgraph::kInduced;
                                                  o.deal.batch_size = 1;
                                                }},
                                           Kind{"Plugin",
                                                [](LoaderOptions& o) {
                                                  o.batch.sampler = "spaced";
                                                  o.batch.sampler_options = "4,3";
                                                  o.execution.plugins = {plugin("spaced_sampler")};
                                                }},
                                           Kind{"Mask",
                                                [](LoaderOptions& o) {
                                                  o.seed_mask.emplace(400);
                                                  for (std::size_t i = 0; i < 400; i += 3)
                                                    (*o.seed_mask)[i] = 1;
                                                }},
                                           Kind{"WeightedSeeds",
                                                [](LoaderOptions& o) {
                                                  o.seeds.emplace(100);
                                                  std::iota(o.seeds->begin(), o.seeds->end(), 50);
                                                  o.seed_weights.assign(100, 1.0);
                                                  o.seed_weights[7] = 40;
                                                }}),
                         [](const auto& info) { return std::string(info.param.name); });

class Plugins : public LoaderTestWithin<> {
 protected:
  static std::string refused(const std::function<void(LoaderOptions&)>& change) {
    LoaderOptions o = options();
    o.batch = {};
    change(o);
    const std::string error = error_of([&] {
      Loader loader(o);
      loader.begin_epoch(0);
      loader.next();
    });
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  }
};

TEST_F(Plugins, ThatDoNotLoad_AreNamed) {
  const auto expect = [&](const std::string& library, const std::string& part) {
    const std::string error = refused([&](LoaderOptions& o) { o.execution.plugins = {library}; });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect("/no/such/plugin.so", "not found: the plugin /no/such/plugin.so");
  expect((path(1) / "meta.json").string(), "invalid: the plugin " + (path(1) / "meta.json").string() +
                                               " does not load: it is no shared library");
  expect(plugin("no_plugin"), "is no plugin");
  expect(plugin("old_plugin"), "the plugin " + plugin("old_plugin") +
                                   " was built for 'hopfeed sampler plugin 5, g++ ABI " __VERSION__
                                   "' of another hopfeed than this ('" +
                                   kSamplerPluginVersion + "'); build it again");
  expect("", "invalid: a plugin is called '': Invalid argument; give the path of a shared library");
}

// dlopen maps what the headers name, and reading behind the end of a file is a bus error.
TEST_F(Plugins, ThatWereCutShort_AreNamed) {
  std::ifstream whole(plugin("spaced_sampler"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  const std::filesystem::path cut = folder() / "cut.so";
  for (const std::size_t left : {std::size_t{5}, std::size_t{40}, std::size_t{100}, std::size_t{4'096},
                                 bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, left);
    const std::string error = refused([&](LoaderOptions& o) { o.execution.plugins = {cut.string()}; });
    EXPECT_EQ(error, "invalid: the plugin " + cut.string() +
                         " does not load: it was cut short or is damaged (" + std::to_string(left) +
                         " bytes are there); copy or build it again");
  }
  std::filesystem::remove(cut);
}

// In this process, which is the trainer's and lives on.
TEST_F(Plugins, WhoseConstructorsFail_AreNamedAndEndNoTrainer) {
  const std::string library = plugin("failing_constructor"),
                    named = "the plugin " + library + " does not load";
  const auto error = [&](const char* how) {
    const InEnvironment failing("FAILING_CONSTRUCTOR", how);
    return refused([&](LoaderOptions& o) {
      o.execution.plugins = {library};
      if (std::string(how) == "hang") o.execution.start_deadline = std::chrono::milliseconds(100);
    });
  };
  EXPECT_EQ(error("throw"), "invalid: " + named + ", one of its constructors threw: not before noon");
  EXPECT_EQ(error("throw 7"),
            "invalid: " + named + ", one of its constructors threw: something that is no std::exception");
  for (const auto& [how, end] :
       {std::pair("abort", "was killed by signal 6 (Aborted)"), std::pair("exit", "left with exit code 0")}) {
    const std::string said = error(how);
    EXPECT_TRUE(said.starts_with("invalid: " + named + ", its constructors end the process: worker process "))
        << said;
    EXPECT_TRUE(said.ends_with(end)) << said;
  }
  EXPECT_EQ(error("hang"),
            "timeout: " + named +
                ": its constructors were not done within 100 ms; mend it, or raise start_deadline");
}

// poll counts milliseconds in an int: of 2^32 + 1 of them one would be left.
TEST_F(Plugins, WithDeadlinesOfDays_Load) {
  for (const std::chrono::milliseconds deadline :
       {std::chrono::milliseconds(std::chrono::days(100)),
        std::chrono::milliseconds((std::int64_t{1} << 32) + 1), std::chrono::milliseconds(kMaxDeadlineMs)}) {
    const std::string error = refused([&](LoaderOptions& o) {
      o.execution.plugins = {plugin("spaced_sampler")};
      o.batch.sampler = "spaced";
      o.batch.sampler_options = "4,3";
      o.execution.start_deadline = o.execution.batch_deadline = deadline;
    });
    EXPECT_EQ(error, "no error") << deadline.count();
  }
}

TEST_F(Plugins, WhoseConstructorsThrow_EndTheProgramInOneLine) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--at", "0,0,4"}}) {
    std::vector<std::string> command{testing::program("hopfeed-sample"), path(1).string(), "--plugin",
                                     plugin("failing_constructor")};
    command.insert(command.end(), more.begin(), more.end());
    const testing::ProgramResult result = testing::run_program(command);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "hopfeed-sample: the plugin " + plugin("failing_constructor") +
                              " does not load, one of its constructors threw: not before noon\n");
  }
}

TEST_F(Plugins, KnowNothingButTheirOwnOptions) {
  const auto expect = [&](const std::function<void(BatchOptions&)>& change, const std::string& part) {
    const std::string error = refused([&](LoaderOptions& o) {
      o.execution.plugins = {plugin("spaced_sampler")};
      o.batch.sampler = "spaced";
      o.batch.sampler_options = "4,3";
      change(o.batch);
    });
    EXPECT_EQ(error, "invalid: " + part);
  };
  const auto unknown = [](const char* option) {
    return std::string("sampler 'spaced' knows no ") + option + "; leave it out or choose another";
  };
  expect([](BatchOptions& o) { o.replace = true; }, unknown("replace"));
  expect([](BatchOptions& o) { o.weight = "w"; }, unknown("weight"));
  expect([](BatchOptions& o) { o.fanouts = {4, 3}; }, unknown("fanouts"));
  expect([](BatchOptions& o) { o.edge_fanouts = {{"to", {1, 1, 1}}}; }, unknown("edge_fanouts"));
  expect([](BatchOptions& o) { o.time = "t"; }, unknown("time"));
  expect([](BatchOptions& o) { o.sampler_options = "10abc"; },
         "'10abc' in sampler_options '10abc' is no number; write them like 15,10,5");
  expect([](BatchOptions& o) { o.sampler_options = "70000"; },
         "70000 neighbours of a row in a hop; choose 1 to 65535");
  expect([](BatchOptions& o) { o.sampler_options = ""; }, "a sampler of 0 hops; 1 to 16 can be");
}

TEST_F(Plugins, ThatFailWhereTheyAreMade_EndTheLoader) {
  const std::string error = refused([](LoaderOptions& o) {
    o.execution.plugins = {plugin("throwing_sampler")};
    o.batch.sampler = "throwing";
    o.batch.sampler_options = "make";
  });
  EXPECT_EQ(error, "invalid: sampler 'throwing' failed: no such luck");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kAnswersSegv =
    true;  // a sanitizer takes the signal for itself, and ends the process by its own code
#else
constexpr bool kAnswersSegv = false;
#endif

// In this process, which is the trainer's and lives on.
TEST_F(Plugins, WhoseSamplersCrash_AreNamedWithTheSignalAndEndNoTrainer) {
  const std::string library = plugin("throwing_sampler");
  const auto error = [&](const char* how) {
    return refused([&](LoaderOptions& o) {
      o.execution.plugins = {library};
      o.batch.sampler = "throwing";
      o.batch.sampler_options = how;
      if (std::string(how) == "hang") o.execution.start_deadline = std::chrono::seconds(5);
    });
  };
  const std::string whose = "the sampler 'throwing' of the plugin " + library;
  for (const auto& [how, end] : {std::pair("crash", "was killed by signal 11 (Segmentation fault)"),
                                 std::pair("crash bounds", "was killed by signal 6 (Aborted)"),
                                 std::pair("exit", "left with exit code 0")}) {
    const std::string said = error(how);
    EXPECT_TRUE(said.starts_with("invalid: " + whose +
                                 " ends the process where it is made or says how large its "
                                 "batches can be: worker process "))
        << said;
    EXPECT_TRUE(said.ends_with(end) || (kAnswersSegv && std::string(how) == "crash")) << said;
  }
  EXPECT_EQ(error("hang"),
            "timeout: " + whose +
                " was not made, or did not say how large its batches can be, within 5000 ms; mend it, "
                "or raise start_deadline");
}

TEST_F(Plugins, ThatAreMissing_AreToldBeforeWhatTheirSamplerKnows) {
  const auto lacking = [](LoaderOptions& o) {
    o.batch.sampler = "laddies";
    o.batch.fanouts = {4, 3};
  };
  EXPECT_TRUE(
      refused(lacking).starts_with("not found: there is no sampler 'laddies'; there are neighbor, cluster"));
  EXPECT_TRUE(refused([&](LoaderOptions& o) {
                lacking(o);
                o.execution.plugins = {"/no/such/plugin.so"};
              }).starts_with("not found: the plugin /no/such/plugin.so is not there"));
}

TEST_F(Plugins, ThatFailInABatch_EndTheBatchAndNotTheWorker) {
  LoaderOptions o = options();
  o.batch = {};
  o.execution.plugins = {plugin("throwing_sampler")};
  o.batch.sampler = "throwing";
  Loader loader(o);
  loader.begin_epoch(0);
  EXPECT_EQ(error_of([&] { loader.next(); }), "invalid: sampler 'throwing' failed: not today");
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

TEST_F(Plugins, UnknownNames_AreNamedBesideThoseThatThereAre) {
  const std::string error = refused([](LoaderOptions& o) { o.batch.sampler = "laddies"; });
  EXPECT_NE(error.find("no sampler 'laddies'; there are neighbor, cluster"), std::string::npos) << error;
}

}  // namespace
}  // namespace hopfeed
