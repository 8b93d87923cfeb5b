// What all programs take from a command line: numbers that fit or are refused, sizes, lists, cores, commands.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/program/command_line.h"
#include "core/program/json_report.h"
#include "core/program/parse_option.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

/// A program with one option of each kind and two commands.
struct Program {
  Program() {
    line.option("--threads", threads, "Threads", {.min = 1, .max = 1024});
    line.option("--nodes", nodes, "Nodes", {.positive = true});
    line.option("--seed", seed, "Seed");
    line.option("--hops", hops, "Hops");
    line.option("--lr", lr, "Rate", {.positive = true});
    line.option("--decay", decay, "Decay", {.positive = true});
    line.option("--method", method, "Method", {.one_of = {"metis", "random"}});
    line.option("--out", out, "Folder");
    line.option("--text", text, "Text, where it makes a difference");
    line.size_option("--channel-size", size, "Bytes");
    line.numbers_option("--cores", cores, "Cores");
    line.flag("--replace", replace, "Replace");
  }
  void parse(std::vector<std::string> words) {
    words.insert(words.begin(), "prog");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    line.parse(static_cast<int>(argv.size()), argv.data());
  }
  std::string refused(const std::vector<std::string>& words) {
    return error_of([&] { parse(words); });
  }

  CommandLine line{"prog", "A program"};
  int threads = 1;
  std::int64_t nodes = 1;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> hops;
  double lr = 0.1;
  std::optional<double> decay;
  std::string method = "metis", text = "some";
  std::filesystem::path out;
  std::size_t size = 0;
  std::vector<int> cores;
  bool replace = false;
};

TEST(CommandLine, OptionsOfAGroup_StandUnderItsHeadingOfHelp) {
  CommandLine line("prog", "A program");
  int first = 0, fast = 0, last = 0;
  line.option("--first", first, "One");
  {
    const CommandLine::Group group(line, "Speed");
    line.option("--fast", fast, "Two");
  }
  line.option("--last", last, "Three");
  std::string program = "prog", help = "--help";
  char* argv[] = {program.data(), help.data()};
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(line.parse(2, argv));
  const std::string text = ::testing::internal::GetCapturedStdout();
  const std::size_t speed = text.find("Speed:");
  ASSERT_NE(speed, std::string::npos) << text;
  EXPECT_GT(text.find("--fast"), speed);
  EXPECT_LT(text.find("--last"), speed) << "without a group: " << text;
}

TEST(CommandLine, ValuesThatFit_AreTaken) {
  Program program;
  program.parse({"--threads", "1024", "--nodes=9223372036854775807", "--seed", "18446744073709551615",
                 "--hops", "-3", "--lr", "1e-3", "--decay", "0.5", "--method", "random", "--channel-size",
                 "4G", "--cores", "0,2-4", "--replace"});
  EXPECT_EQ(program.threads, 1024);
  EXPECT_EQ(program.nodes, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(program.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(program.hops, -3);
  EXPECT_EQ(program.lr, 1e-3);
  EXPECT_EQ(program.decay, 0.5);
  EXPECT_FALSE(Program().decay.has_value());
  EXPECT_EQ(program.method, "random");
  EXPECT_EQ(program.size, std::size_t{4} << 30);
  EXPECT_EQ(program.cores, (std::vector<int>{0, 2, 3, 4}));
  EXPECT_TRUE(program.replace);
}

TEST(CommandLine, NumbersThatDoNotFit_AreRefusedAndNeverWrapOrClamp) {
  for (const char* text : {"-1", "18446744073709551616", "1e20", "0x10", "1.5", "", " 1", "seven"}) {
    Program program;
    EXPECT_EQ(program.refused({"--seed", text}),
              std::string("--seed is '") + text + "'; give a whole number from 0 to 18446744073709551615");
    EXPECT_EQ(program.seed, 0u);
  }
  Program program;
  EXPECT_EQ(program.refused({"--threads", "0"}), "--threads is '0'; give a whole number from 1 to 1024");
  EXPECT_EQ(program.refused({"--threads", "1025"}),
            "--threads is '1025'; give a whole number from 1 to 1024");
  EXPECT_EQ(program.refused({"--nodes", "0"}),
            "--nodes is '0'; give a whole number from 1 to 9223372036854775807");
  EXPECT_EQ(program.refused({"--hops", "9223372036854775808"}),
            "--hops is '9223372036854775808'; give a whole number up to 9223372036854775807");
  EXPECT_EQ(program.refused({"--lr", "nan"}), "--lr is 'nan'; give a number");
  EXPECT_EQ(program.refused({"--lr", "1e999"}), "--lr is '1e999'; give a number");
  EXPECT_EQ(program.refused({"--lr", "0"}), "--lr is '0'; give a number above 0");
  EXPECT_EQ(program.refused({"--decay", "0"}), "--decay is '0'; give a number above 0");
}

TEST(InOwnWords, MarkedFields_AreTheOptionsOfTheCommandThatWasChosen) {
  CommandLine line("prog", "A program");
  std::int64_t number = 1;
  bool flag = false;
  CommandLine& run = line.command("run", "Runs");
  run.option("--batch-size", number, "Seeds");
  run.option("--threads,--num-workers", number, "Workers");
  run.option("--link", number, "Links");
  run.option("--time", number, "Time");
  run.option("--link-times", number, "Times");
  run.flag("--e-id", flag, "Ids");
  run.stands_for("--link-times", "links.times");
  run.stands_for("--e-id", "edge_ids");
  line.command("rest", "Rests").option("--weight", number, "Weight");
  std::string words[] = {"prog", "run"};
  char* argv[] = {words[0].data(), words[1].data()};
  line.parse(2, argv);
  for (const auto& [field, told] : {std::pair<const char*, const char*>{"batch_size", "--batch-size"},
                                    {"threads", "--threads"},
                                    {"num_workers", "--num-workers"},
                                    {"batch.link", "--link"},
                                    {"links.times", "--link-times"},
                                    {"edge_ids", "--e-id"},
                                    {"weight", "weight"},  // of the other command
                                    {"num_slots", "num_slots"}})
    EXPECT_EQ(line.in_own_words("lower " + marked(field) + " (time)"),
              std::string("lower ") + told + " (time)");
  EXPECT_EQ(run.in_own_words(marked("time") + " is 3"), "--time is 3");
  EXPECT_EQ(line.in_own_words("in the course of time; attribute 'batch_size' of data/batch_size: time is 3"),
            "in the course of time; attribute 'batch_size' of data/batch_size: time is 3");
}

TEST(InOwnWords, WhatIsWrongWithValuesOfAFile_BeginsWithOptionAndFile) {
  CommandLine line("prog", "A program");
  std::string times, seeds, labels;
  line.option("--time", times, "Times");
  line.option("--seeds", seeds, "Seeds");
  line.option("--labels", labels, "Labels");
  line.stands_for("--labels", "links.labels");
  std::string words[] = {"prog", "--time", "t.npy", "--labels=data/l.npy"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  line.parse(static_cast<int>(argv.size()), argv.data());
  EXPECT_EQ(line.in_own_words(marked_file("batch.time") + "one is late"), "--time: t.npy: one is late");
  EXPECT_EQ(line.in_own_words(marked_file("links.labels") + "one is 0"), "--labels: data/l.npy: one is 0");
  EXPECT_EQ(line.in_own_words(marked_file("seeds") + "none"), "none") << "not given";
  EXPECT_EQ(line.in_own_words(marked_file("weights") + "none"), "none") << "no option";
}

TEST(CommandLine, OtherValuesThatMakeNoSense_AreRefusedByName) {
  Program program;
  EXPECT_EQ(program.refused({"--method", "best"}), "--method is 'best'; give one of: metis, random");
  for (const char* text : {"-5", "5X", "G", "99999999999999999999", "16777216T", "4GiBs", "1.5G"}) {
    EXPECT_EQ(program.refused({"--channel-size", text}),
              std::string("--channel-size is '") + text + "'; give bytes, like 1000000, 512M or 4G");
  }
  for (const char* text : {"5-2", "-1", "1,,2", "1,", "a", "0-70000", "1-", "1-2-3"}) {
    EXPECT_EQ(program.refused({"--cores", text}),
              std::string("--cores is '") + text + "'; give whole numbers, like 0,2-3");
  }
  EXPECT_EQ(program.refused({"--out", ""}), "--out is ''; give a value or leave it out");
  EXPECT_EQ(program.refused({"--text", ""}), "no error") << "empty is not what it is by itself";
  EXPECT_NE(program.refused({"--colour", "blue"}).find("--colour"), std::string::npos);
  EXPECT_NE(program.refused({"--seed", "1", "--seed", "2"}).find("--seed"), std::string::npos);
}

TEST(CommandLine, SizesHaveUnitsOf1024) {
  EXPECT_EQ(parse_size("1000000", "--s"), 1'000'000u);
  EXPECT_EQ(parse_size("2k", "--s"), 2'048u);
  EXPECT_EQ(parse_size("512M", "--s"), std::size_t{512} << 20);
  EXPECT_EQ(parse_size("4GB", "--s"), std::size_t{4} << 30);
  EXPECT_EQ(parse_size("1tib", "--s"), std::size_t{1} << 40);
}

TEST(CommandLine, CacheSizesAreSharesOrBytesOrAuto) {
  EXPECT_EQ(parse_cache_size("0.2", "--c").ratio, 0.2);
  EXPECT_EQ(parse_cache_size("0", "--c").ratio, 0);
  EXPECT_EQ(parse_cache_size("0.2", "--c").bytes, 0u);
  EXPECT_EQ(parse_cache_size("4G", "--c").bytes, std::size_t{4} << 30);
  EXPECT_EQ(parse_cache_size("4G", "--c").ratio, 0) << "with bytes it is not read";
  EXPECT_TRUE(parse_cache_size("auto", "--c").automatic);
  EXPECT_FALSE(parse_cache_size("1", "--c").automatic);
  expect_refused([] { parse_cache_size("2", "--c"); },
                 "--c is '2'; give a share from 0 to 1, a size (4G) or auto");
  expect_refused([] { parse_cache_size("2", "--c", ", or FILE"); }, "a size (4G), auto, or FILE");
  expect_refused([] { parse_cache_size("4GX", "--c"); }, "--c is '4GX'; give bytes");
  expect_refused([] { parse_cache_size("0G", "--c"); }, "--c is '0G'; give 0 to hold nothing");
  expect_refused([] { parse_cache_size("all", "--c"); }, "--c is 'all'; give a number");
}

TEST(CommandLine, ListsAreWholeNumbers) {
  EXPECT_EQ(parse_list("0,-5,16", "--at"), (std::vector<std::int64_t>{0, -5, 16}));
  EXPECT_EQ(error_of([] { parse_list("1,,2", "--at"); }),
            "--at is '1,,2'; give whole numbers with commas between them");
}

TEST(CommandLine, Help_ShowsDefaultsUnlessTheOptionWouldRefuseThem) {
  CommandLine line("prog", "A program");
  std::int64_t nodes = 0, rows = 0, seeds = 7;
  line.option("--nodes", nodes, "Nodes", {.positive = true});
  line.option("--rows", rows, "Rows", {.min = 0});
  line.option("--seeds", seeds, "Seeds", {.positive = true});
  std::string program = "prog", help = "--help";
  char* argv[] = {program.data(), help.data()};
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(line.parse(2, argv));
  const std::string shown = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(shown.find("--nodes NUMBER  "), std::string::npos) << shown;
  EXPECT_NE(shown.find("--rows NUMBER=0 "), std::string::npos) << shown;
  EXPECT_NE(shown.find("--seeds NUMBER=7 "), std::string::npos) << shown;
}

/// What a program with three outputs says when it is run with these words.
std::string outputs_refused(std::vector<std::string> words) {
  CommandLine line("prog", "A program");
  std::string json, trace, dataset, in;
  std::filesystem::path folder;
  line.option("--in", in, "Input");
  line.option("--json", json, "Report", {.output = true});
  line.option("--trace", trace, "Trace", {.output = true});
  line.option("--out", folder, "Folder", {.output = true});
  line.option("--make", dataset, "Dataset to make", {.dataset = true});
  line.action([] {});
  words.insert(words.begin(), "prog");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return error_of([&] {
    line.parse(static_cast<int>(argv.size()), argv.data());
    line.run();
  });
}

TEST(CommandLine, OutputsInsideADataset_AreRefusedByWhateverName) {
  const testing::TempFolder temporary;
  const std::filesystem::path folder = std::filesystem::canonical(temporary.path()), data = folder / "data";
  std::filesystem::create_directories(data / "part-0000");
  std::ofstream(data / "meta.json") << R"({"format": "hopfeed-dataset"})";
  std::filesystem::create_directories(folder / "other");
  std::ofstream(folder / "other/meta.json") << "{}";
  std::filesystem::create_directory_symlink(data / "part-0000", folder / "link");
  const std::string inside = "lies inside the dataset " + data.string() + "; choose a place outside of it";
  for (const char* name : {"data/meta.json", "data/new.json", "data/part-0000/x", "data/part-0000/../x",
                           "link/x", "link/../meta.json", "data/no/such/folder/x"}) {
    const std::string path = (folder / name).string();
    EXPECT_EQ(outputs_refused({"--json", path}), "--json: " + path + " " + inside);
  }
  const std::string relative = std::filesystem::relative(data / "meta.json").string();
  EXPECT_EQ(outputs_refused({"--trace", relative}), "--trace: " + relative + " " + inside);
  for (const char* name : {"data", "data/", "link", "data/new"})
    EXPECT_NE(outputs_refused({"--out", (folder / name).string()}).find(inside), std::string::npos) << name;
  for (const char* name : {"x.json", "other/x.json", "data.json"})
    EXPECT_EQ(outputs_refused({"--json", (folder / name).string()}), "no error");
  EXPECT_EQ(outputs_refused({"--out", folder.string()}), "no error") << "a dataset may lie in it";
}

TEST(CommandLine, OutputsInsideADatasetThatIsMade_AreRefused) {
  const testing::TempFolder temporary;
  const std::filesystem::path folder = std::filesystem::canonical(temporary.path());
  const std::string made = (folder / "made").string();
  std::filesystem::create_directory(folder / "below");
  for (const char* name : {"made", "made/", "made/x.json", "below/../made/x/y.json"}) {
    const std::string path = (folder / name).string();
    for (const std::string& dataset : {made, made + "/"})
      EXPECT_EQ(outputs_refused({"--make", dataset, "--json", path}),
                "--json: " + path + " lies inside the dataset " + made +
                    " that is made; choose a place outside of it");
  }
  for (const char* name : {"made.json", "below/made", "x"})
    EXPECT_EQ(outputs_refused({"--make", made, "--json", (folder / name).string()}), "no error") << name;
  EXPECT_EQ(outputs_refused({"--make", made}), "no error");
}

TEST(CommandLine, AnOutputThatIsAnInput_IsRefused) {
  const testing::TempFolder folder;
  const std::string file = (folder.path() / "x").string(), other = (folder.path() / "y").string();
  std::ofstream(file) << "what a user has";
  std::filesystem::create_hard_link(file, other);
  const std::string why =
      "--json is " + file + ", which is named as a file to read too; choose another place";
  EXPECT_EQ(outputs_refused({"--json", file, "--in", file}), why);
  EXPECT_EQ(outputs_refused({"--in", "name=" + other, "--json=" + file}), why);
  EXPECT_EQ(outputs_refused({"--json", file}), "no error") << "a report takes the place of the one before";
  EXPECT_EQ(outputs_refused({"--json=" + file}), "no error");
}

TEST(CommandLine, OutputsOfTheSameName_AreRefused_DevicesAreNot) {
  const testing::TempFolder folder;
  std::filesystem::create_directory(folder.path() / "below");
  const std::string file = (folder.path() / "x").string(),
                    same = (folder.path() / "below" / ".." / "x").string();
  EXPECT_EQ(outputs_refused({"--json", file, "--trace", same}),
            "--json and --trace both name " + same + "; give each a file of its own");
  EXPECT_EQ(outputs_refused({"--json", file, "--trace", file + "2"}), "no error");
  EXPECT_EQ(outputs_refused({"--json", "/dev/null", "--trace", "/dev/null"}), "no error");
}

// As `--json /dev/stdout > file`: what is in the file stays, and the link.
TEST(CommandLine, JsonToALinkThatStandsForADescriptor_GoesBehindWhatIsThere) {
  const testing::TempFolder folder;
  const std::filesystem::path file = folder.path() / "file", link = folder.path() / "stdout";
  const OwnedFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "no file");
  const std::string target = "/proc/self/fd/" + std::to_string(fd.get());
  std::filesystem::create_symlink(target, link);
  ASSERT_EQ(::write(fd.get(), "so far\n", 7), 7);
  JsonReport(link).write({{"a", 1}});
  EXPECT_EQ(std::filesystem::read_symlink(link), target);
  std::ifstream stored(file);
  const std::string text{std::istreambuf_iterator<char>(stored), {}};
  EXPECT_TRUE(text.starts_with("so far\n{") && text.ends_with("}\n")) << text;
}

TEST(CommandLine, ACommandIsDone_AndAMissingOrMistypedOneIsNamed) {
  const auto run = [](std::vector<std::string> words) -> std::string {
    CommandLine line("prog", "A program");
    std::string done;
    CommandLine& import = line.command("import", "Imports");
    import.command("csv", "From text").action([&] { done = "csv"; });
    import.command("numpy", "From arrays").action([&] { done = "numpy";
});
line.command("verify", "Checks").action([&] { done = "verify"; });
words.insert(words.begin(), "prog");
std::vector<char*> argv;
for (std::string& word : words) argv.push_back(word.data());
const std::string error = error_of([&] {
  line.parse(static_cast<int>(argv.size()), argv.data());
  line.run();
});
return error == "no error" ? done : error;
};
EXPECT_EQ(run({"import", "numpy"}), "numpy");
EXPECT_EQ(run({"verify"}), "verify");
EXPECT_EQ(run({}), "name a command: import, verify (see prog --help)");
EXPECT_EQ(run({"import"}), "name a command: csv, numpy (see prog import --help)");
EXPECT_NE(run({"verfy"}).find("verfy"), std::string::npos);
EXPECT_NE(run({"import", "tsv"}).find("tsv"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
