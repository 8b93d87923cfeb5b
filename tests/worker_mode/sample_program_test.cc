// hopfeed-sample as a user meets it: what it prints, that set-ups which must agree do, and how it refuses bad
// input.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include "core/base/json_text.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/dataset/npy.h"
#include "tests/support/dataset_files.h"
#include "tests/worker_mode/loader_fixture.h"
#include "tests/worker_mode/trace_check.h"

namespace hopfeed {
namespace {

class SampleProgram : public LoaderTestWithin<120> {
 protected:
  static testing::ProgramResult sample(const std::vector<std::string>& more, int parts = 1) {
    return testing::run_program(sample_command(more, path(parts)));
  }
  static testing::ProgramResult shell(const std::string& line) {
    return testing::run_program({"/bin/sh", "-c", line});
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  /// Exit code not 0, nothing on stdout, one line on stderr that has `part`.
  static void expect_refused(const testing::ProgramResult& result, const std::string& part) {
    EXPECT_NE(result.exit_code, 0) << part;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.err.rfind("hopfeed-sample: ", 0), 0U) << result.err;
  }
};

TEST_F(SampleProgram, PrintsOneLinePerBatchAndNothingElse) {
  const testing::ProgramResult result = sample({"--epochs", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "") << "a progress bar only on a terminal";
  std::vector<std::string> want = expected(options());
  const std::vector<std::string> second = expected(options(), {.epoch = 1});
  want.insert(want.end(), second.begin(), second.end());
  EXPECT_EQ(lines_of(result.out), want);
  for (const std::string& line : lines_of(result.out)) {
    EXPECT_EQ(line.find_first_not_of("0123456789abcdef "), std::string::npos) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), ' '), 5) << line;
    EXPECT_EQ(line.size() - line.rfind(' ') - 1, 16U) << line;
  }
}

TEST_F(SampleProgram, WorkersAndPartitions_DoNotShowInTheOutput) {
  const std::string one = sample({"--num-workers", "1"}).out;
  for (const char* workers : {"2", "4"}) EXPECT_EQ(sample({"--num-workers", workers}).out, one);
  for (int parts : {2, 3}) EXPECT_EQ(sample({"--e-id"}, parts).out, sample({"--e-id"}, 1).out);
  EXPECT_NE(sample({"--dataset-ids"}, 2).out, sample({"--dataset-ids"}, 1).out)
      << "there the order of the cut is asked for";
  EXPECT_EQ(sample({"--channel-size", "1", "--cores", "0"}).out, one);
}

// As Lightning sets them.
TEST_F(SampleProgram, LocalRankWithoutLocalWorldSize_GivesTheSameBatches) {
  for (const std::string world : {"", "WORLD_SIZE=2"}) {
    std::vector<std::string> command{"/usr/bin/env", "LOCAL_RANK=1"};
    if (!world.empty()) command.push_back(world);
    for (const std::string& word : sample_command({}, path(1))) command.push_back(word);
    const testing::ProgramResult result = testing::run_program(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(lines_of(result.out), expected(options()));
  }
}

TEST_F(SampleProgram, StartAndRank_PickTheBatchesOfThatRun) {
  const std::vector<std::string> whole = lines_of(sample({}).out);
  EXPECT_EQ(lines_of(sample({"--start", "48"}).out),
            std::vector<std::string>(whole.begin() + 3, whole.end()));
  LoaderOptions rank1 = options();
  rank1.deal.rank = 1;
  rank1.deal.world_size = 2;
  EXPECT_EQ(lines_of(sample({"--rank", "1", "--world-size", "2"}).out), expected(rank1));
}

TEST_F(SampleProgram, AHopOfFanoutZero_DrawsNothing) {
  LoaderOptions o = options();
  for (const auto& [text, fanouts] : {std::pair{"4,0", std::vector<std::int64_t>{4, 0}}, {"0", {0}}}) {
    o.batch.fanouts = fanouts;
    const testing::ProgramResult result =
        testing::run_program({testing::program("hopfeed-sample"), path(1), "--fanouts", text, "--batch-size",
                              "16", "--seed", "11"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(lines_of(result.out), expected(o)) << text;
  }
}

TEST_F(SampleProgram, Flags_ReachTheSampler) {
  LoaderOptions o = options();
  o.shuffle = false;
  o.deal.drop_last = true;
  o.batch.replace = true;
  EXPECT_EQ(lines_of(sample({"--no-shuffle", "--drop-last", "--replace"}).out), expected(o));
}

TEST_F(SampleProgram, Attrs_AreThoseThatABatchCarries) {
  for (const char* names : {"y", "x,y", ""}) {
    LoaderOptions o = options();
    o.batch.attrs = parse_names(names);
    EXPECT_EQ(lines_of(sample({"--attrs", names}).out), expected(o)) << names;
  }
  EXPECT_EQ(sample({"--attrs", "all"}).out, sample({}).out);
  expect_refused(sample({"--attrs", "z"}), "'z'");
  expect_refused(sample({"--attrs", "x,,y"}), "'x,,y' has an empty name");
  expect_refused(sample({"--attrs", "x,y,x"}), "attrs names 'x' twice");
}

TEST_F(SampleProgram, At_MakesTheSameBatchAgainAndStoresIt) {
  const std::vector<std::string> whole = lines_of(sample({}).out);
  const std::string file = (folder() / "batch.blk").string();
  const testing::ProgramResult again = sample({"--at", "0,32,16", "--dump", file});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(lines_of(again.out), std::vector<std::string>{whole[2]});
  std::ifstream stored(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stored)), {});
  AlignedBlock block(text.size());
  std::ranges::copy(std::as_bytes(std::span(text)), block.bytes().begin());
  EXPECT_EQ(line_of(BatchView(block.bytes())), whole[2]);
  const std::string npz = (folder() / "batch.npz").string();
  EXPECT_EQ(sample({"--at", "0,32,16", "--dump", npz}).exit_code, 0);
  EXPECT_EQ(testing::run_program({"python3", "-c",
                                  "import sys, zipfile; names = zipfile.ZipFile(sys.argv[1]).namelist(); "
                                  "assert 'x.npy' in names and 'edge_index.npy' in names, names",
                                  npz})
                .err,
            "");
}

TEST_F(SampleProgram, Links_ComeFromFilesAndAreDumpedByTheirNames) {
  std::vector<std::int64_t> pairs, labels;
  for (std::int64_t i = 0; i < 40; ++i) {
    pairs.insert(pairs.end(), {i * 7 % 400, i * 11 % 400});
    labels.push_back(i % 3);
  }
  const testing::TempFolder alone;
  const std::string links = (alone.path() / "links.npy").string(),
                    of_links = (alone.path() / "labels.npy").string(),
                    npz = (alone.path() / "batch.npz").string();
  write_npy<std::int64_t>(links, pairs, {40, 2});
  write_npy<std::int64_t>(of_links, labels, {40});
  const std::vector<std::string> command{"--link",   "to",          "--links", links,      "--labels",
                                         of_links,   "--negatives", "binary",  "--amount", "2",
                                         "--strict", "--exclude",   "reverse"};
  LoaderOptions o = options();
  o.batch.link = {.edge_type = "to",
                  .negatives = {.mode = NegativeMode::kBinary, .amount = 2, .strict = true},
                  .exclude = Exclude::kReverse};
  o.links = {{.pairs = pairs, .labels = labels}};
  const testing::ProgramResult all = sample(command);
  EXPECT_EQ(lines_of(all.out), expected(o)) << all.err;
  std::vector<std::int64_t> ends(pairs.size());  // the same as an edge index
  for (std::size_t i = 0; i < pairs.size(); ++i) ends[i % 2 * labels.size() + i / 2] = pairs[i];
  std::vector<std::string> turned = command;
  turned[3] = (alone.path() / "turned.npy").string();
  write_npy<std::int64_t>(turned[3], ends, {2, 40});
  EXPECT_EQ(sample(turned).out, all.out);
  std::vector<std::string> one = command;
  one.insert(one.end(), {"--at", "0,16,16", "--dump", npz});
  EXPECT_EQ(lines_of(sample(one).out), std::vector<std::string>{expected(o)[1]});
  EXPECT_EQ(
      testing::run_program({"python3", "-c",
                            "import sys, zipfile; names = set(zipfile.ZipFile(sys.argv[1]).namelist()); "
                            "wanted = {'edge_label_index.npy', 'edge_label.npy', 'input_id.npy', "
                            "'num_negative_retries.npy'}; assert wanted <= names, names",
                            npz})
          .err,
      "");
  const std::filesystem::path report = alone.path() / "report.json", trace = alone.path() / "trace.json";
  std::vector<std::string> told = command;
  told.insert(told.end(), {"--json", report.string(), "--trace", trace.string()});
  EXPECT_EQ(sample(told).exit_code, 0);
  std::ostringstream text;
  text << std::ifstream(report).rdbuf();
  EXPECT_NE(text.str().find("\"num_negative_retries\": "), std::string::npos) << text.str();
  const auto tracks = testing::check_trace(trace).tracks;
  EXPECT_TRUE(tracks.contains("0 links worker 0") || tracks.contains("0 links worker 1"));
  expect_refused(sample({"--links", links}), "links are given, but not of which edge type");
  expect_refused(sample({"--negatives", "binary"}), "their edge type is named");
  expect_refused(sample({"--link", "to", "--links", of_links}), "is no list of links");
  expect_refused(sample({"--link", "to", "--links", links, "--labels", links}), "is no list of labels");
  expect_refused(sample({"--link", "to"}), "train");  // the edge type has no splits
}

TEST_F(SampleProgram, Json_ReportsTheRun) {
  const std::string file = (folder() / "report.json").string();
  EXPECT_EQ(sample({"--json", file}).exit_code, 0);
  std::ifstream stored(file);
  const std::string text((std::istreambuf_iterator<char>(stored)), {});
  EXPECT_NE(text.find("\"batches\": 15"), std::string::npos) << text;
}

TEST_F(SampleProgram, Trace_HasEachBatchOnceOnATrackPerWorkerAndRank) {
  const testing::TempFolder alone;
  const std::filesystem::path file = alone.path() / "trace.json";
  EXPECT_EQ(
      sample({"--epochs", "2", "--num-workers", "2", "--rank", "1", "--world-size", "2", "--trace", file})
          .err,
      "");
  const testing::TraceSummary trace = testing::check_trace(file);
  LoaderOptions o = options();
  o.deal.rank = 1;
  o.deal.world_size = 2;
  EXPECT_EQ(trace.batches, 2 * expected(o).size());
  EXPECT_EQ(trace.made, trace.batches) << "each once";
  EXPECT_EQ(trace.epochs, (std::set<std::int64_t>{0, 1}));
  EXPECT_EQ(trace.ranks, std::set<std::int64_t>{1});
  EXPECT_TRUE(trace.tracks.contains("1 trainer"));
  EXPECT_TRUE(trace.tracks.contains("1 train worker 0") || trace.tracks.contains("1 train worker 1"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(alone.path()), {}), 1) << "the trace alone";
}

TEST_F(SampleProgram, KilledWhileItTraces_LeavesNothing) {
  const testing::TempFolder alone;
  testing::BackgroundProgram program(sample_command(
      {"--epochs", "1000000", "--trace", alone.path() / "t.json", "--json", alone.path() / "r.json"}));
  program.read_line();
  program.kill();
  EXPECT_TRUE(std::filesystem::is_empty(alone.path()));
}

TEST_F(SampleProgram, TraceThatCannotBeWritten_LeavesNothingHalfWritten) {
  expect_refused(sample({"--trace", "/no/such/folder/trace.json"}), "/no/such/folder/trace.json");
  expect_refused(sample({"--trace", folder()}), "--trace");
  const testing::TempFolder folder;
  const testing::ProgramResult result = shell("ulimit -f 400; " + sample_line() + " --epochs 100 --trace " +
                                              (folder.path() / "t.json").string());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.err.find("t.json"), std::string::npos) << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(SampleProgram, BadInput_IsOneLineAndAnExitCode) {
  expect_refused(sample({"--no-such-option"}), "--no-such-option");
  expect_refused(testing::run_program({testing::program("hopfeed-sample"), path(1), "--fanouts", "4,-2"}),
                 "fanout -2 (--fanouts) is not between 0 and");
  expect_refused(testing::run_program({testing::program("hopfeed-sample"), path(1), "--fanouts", "4,x"}),
                 "x");
  expect_refused(sample({"--split", "holiday"}), "holiday");
  expect_refused(sample({"--world-size", "1000"}), "1000 trainers");
  expect_refused(sample({"--rank", "3"}), "rank is 3");
  expect_refused(sample({"--start", "-1"}), "--start is '-1'");
  expect_refused(sample({"--json", ""}), "--json is ''; give a value or leave it out");
  expect_refused(sample({"--channel-size", "16384G"}), "lower --channel-size");
  expect_refused(sample({"--cores", "5-2"}), "--cores");
  expect_refused(sample({"--at", "1,2"}), "EPOCH,FIRST,COUNT");
  expect_refused(sample({"--at", "0,229,16"}), "229");
  expect_refused(sample({"--dump", "x"}), "--at");
  expect_refused(sample({"--epochs", "0"}), "--epochs is '0'");
  expect_refused(sample({"--rank", "99999999999999999999"}), "--rank is '9999");
  expect_refused(sample({"--start", "1e20"}), "--start is '1e20'");
  expect_refused(sample({"--channel-size", "-5"}), "--channel-size is '-5'");
  expect_refused(testing::run_program({testing::program("hopfeed-sample"), "/no/such/folder"}),
                 "/no/such/folder");
  expect_refused(testing::run_program({testing::program("hopfeed-sample")}), "DIR");
}

TEST_F(SampleProgram, MessagesOfTheLibrary_NameTheOptionsAsTheyWereTyped) {
  expect_refused(sample({"--rank", "3"}), "hopfeed-sample: --rank is 3; choose 0 to 0 (--world-size 1)");
  expect_refused(sample({"--links", "train"}), "not of which edge type; name it (--link)");
  expect_refused(sample({"--labor", "--replace"}),
                 "--labor excludes --replace, --weight, --time and --disjoint");
  const auto bare = [](std::vector<std::string> words) {
    words.insert(words.begin(), {testing::program("hopfeed-sample"), path(1)});
    return testing::run_program(words);
  };
  expect_refused(bare({"--sampler", "walk", "--walk-length", "2", "--fanouts", "3"}),
                 "sampler 'walk' knows no --fanouts");
  expect_refused(
      bare({"--sampler", "spaced", "--fanouts", "3"}),
      "there is no sampler 'spaced'; there are neighbor, cluster, walk; name the plugin that brings it "
      "(--plugin)");
  expect_refused(sample({"--seed-time", "y"}), "--seed-time and --time-window need times");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--amount", "3"}, {"--strict"}})
    expect_refused(sample(words), words.front() +
                                      " given, but seeds are links only where their edge type is "
                                      "named (--link)");
  expect_refused(bare({"--num-workers", "0", "--cores", "0"}), "leave them out (--cores)");
  expect_refused(
      sample({"--link", "to", "--amount", "3"}),
      "--amount, --strict, --src-weight and --dst-weight are of negatives; choose binary or triplet "
      "(--negatives)");
  expect_refused(sample({"--edge-fanouts", "to=x"}), "'x' in --edge-fanouts 'x' is no number");
  expect_refused(sample({"--max-batch-memory", "1"}),  // a worker says so
                 "lower --batch-size or fanouts, or raise --max-batch-memory");
  expect_refused(sample({"--attrs", "x,,y"}), "--attrs 'x,,y' has an empty name");
  expect_refused(sample({"--channel-size", "16384G"}),
                 "lower --channel-size, --num-workers, --batch-size or --fanouts");
  expect_refused(bare({"--drop-last", "--batch-size", "231"}), "--drop-last leaves no batch: 230 seeds");
  expect_refused(sample({"--split", "holiday"}), "choose one of them (--split), or give the nodes (--seeds)");
}

TEST_F(SampleProgram, OutputInsideADatasetOrInThePlaceOfAnother_IsRefusedAndNothingIsWritten) {
  const std::filesystem::path manifest = std::filesystem::path(path(1)) / "meta.json";
  const auto text = [&] {
    std::ostringstream all;
    all << std::ifstream(manifest).rdbuf();
    return all.str();
  };
  const std::string before = text();
  const std::string inside = "lies inside the dataset " + std::filesystem::canonical(path(1)).string();
  expect_refused(sample({"--json", manifest.string()}), inside);
  expect_refused(sample({"--trace", manifest.string()}), inside);
  expect_refused(sample({"--at", "0,0,16", "--dump", manifest.string()}), inside);
  const testing::TempFolder folder;
  const std::string file = (folder.path() / "one").string();
  expect_refused(sample({"--json", file, "--trace", file}), "both name " + file);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(text(), before);
}

TEST_F(SampleProgram, DumpThatCannotBeWritten_LeavesNothingHalfWritten) {
  expect_refused(sample({"--at", "0,0,16", "--dump", "/no/such/folder/batch.blk"}), "/no/such/folder");
  expect_refused(sample({"--at", "0,0,16", "--dump", "/dev/null"}), "/dev/null");
  // A file size limit of 1 KiB stands for a full disk: it strikes in the middle of the block.
  const testing::TempFolder folder;
  for (const char* name : {"batch.blk", "batch.npz"}) {
    const std::string file = (folder.path() / name).string();
    const testing::ProgramResult result =
        shell("ulimit -f 1; " + sample_line() + " --at 0,0,16 --dump " + file);
    expect_refused(result, name);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << name;
  }
}

TEST_F(SampleProgram, WithoutStandardInputOrOutput_WorkersStillFindTheirChannel) {
  const testing::ProgramResult usual = sample({});
  ASSERT_EQ(usual.exit_code, 0);
  const testing::ProgramResult no_input = shell(sample_line() + " <&-");
  EXPECT_EQ(no_input.exit_code, 0) << no_input.err;
  EXPECT_EQ(no_input.out, usual.out);
  const testing::TempFolder folder;
  const std::string report = folder.path() / "report.json", dump = folder.path() / "block";
  const testing::ProgramResult at =
      shell(sample_line() + " --at 0,0,16 --dump " + folder.path().string() + "/usual");
  ASSERT_EQ(at.exit_code, 0) << at.err;
  for (const std::string closed : {" >&-", " 2>&-", " <&- >&- 2>&-"}) {
    const testing::ProgramResult result = shell(sample_line() + " --json " + report + closed);
    EXPECT_EQ(result.exit_code, 0) << closed << result.err;
    EXPECT_EQ(parse_json(testing::file_bytes(report))["batches"], lines_of(usual.out).size()) << closed;
    EXPECT_EQ(shell(sample_line() + " --at 0,0,16 --dump " + dump + closed).exit_code, 0) << closed;
    EXPECT_TRUE(testing::file_bytes(dump) == testing::file_bytes(folder.path() / "usual")) << closed;
  }
}

TEST_F(SampleProgram, NoThreadAndNoProcessCanBeStarted_IsOneLineThatSaysWhatToRaise) {
  std::filesystem::permissions(path(1).parent_path(), std::filesystem::perms::all);
  expect_refused(
      shell(testing::without_more_processes() + sample_line()),
      ": Resource temporarily unavailable; raise the limit on processes and threads (ulimit -u, or that "
      "of the container), or use fewer");
}

TEST_F(SampleProgram, AReaderThatLeaves_IsOneLineAndNoDeathBySignal) {
  const testing::ProgramResult result =
      shell("{ " + sample_line() + " --epochs 2000; echo code $? >&2; } | head -n 1");
  EXPECT_EQ(lines_of(result.out).size(), 1U);
  EXPECT_NE(result.err.find("cannot write to standard output"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("code 1\n"), std::string::npos) << result.err;
}

TEST_F(SampleProgram, Terminated_EndsWithOneLineAndCode130) {
  const testing::TempFolder scratch;
  const std::string lines = scratch.path() / "lines";
  const testing::ProgramResult result =
      shell(sample_line() + " --epochs 1000000 > " + lines + " & while kill -0 $! && [ ! -s " + lines +
            " ]; do sleep 0.05; done; kill -TERM $!; wait $!");
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
}

TEST_F(SampleProgram, JsonToADevice_IsWrittenThereAndDoesNotReplaceIt) {
  EXPECT_EQ(sample({"--json", "/dev/null"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  expect_refused(sample({"--json", "/tmp"}), "--json");
}

TEST_F(SampleProgram, WorkerByHand_SaysThatItIsOfNoUse) {
  const testing::ProgramResult result = testing::run_program({testing::program("hopfeed-worker"), "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("of no use by itself"), std::string::npos) << result.out;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"x"}, {"--plugin"}, {"--plugin", "x"}}) {
    std::vector<std::string> command{testing::program("hopfeed-worker")};
    command.insert(command.end(), words.begin(), words.end());
    const testing::ProgramResult refused = testing::run_program(command);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("of no use by itself"), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace hopfeed
