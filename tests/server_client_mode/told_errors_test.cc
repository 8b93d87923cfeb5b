// What a server says and shows of itself: names, and never the places where its files lie.
#include "server_client_mode/server/told_errors.h"

#include <array>
#include <fstream>

#include "core/base/error.h"
#include "core/dataset/dataset_meta.h"
#include "tests/server_client_mode/server_fixture.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

TEST(ToldErrors, FoldersBecomeNamesAndOtherFilesLoseTheirFolders) {
  const std::array<NamedPlace, 2> named{
      {{.folder = "/srv/graphs/products", .name = "products"}, {.folder = "/srv/a b", .name = "spaced"}}};
  const auto told = [&](const std::string& text) { return without_places(text, named); };
  EXPECT_EQ(told("/srv/graphs/products has no split 'x'"), "products has no split 'x'");
  EXPECT_EQ(told("'/srv/graphs/products/part-0000/x.npy' is damaged"),
            "'products/part-0000/x.npy' is damaged");
  EXPECT_EQ(told("edge type 'to' of /srv/graphs/products: none"), "edge type 'to' of products: none");
  EXPECT_EQ(told("cannot read /srv/a b/x.npy: gone"), "cannot read spaced/x.npy: gone");
  EXPECT_EQ(told("/srv/graphs/products-2/x.npy is damaged"), "x.npy is damaged");
  EXPECT_EQ(told("cannot start /usr/lib/hopfeed/hopfeed-worker: no"), "cannot start hopfeed-worker: no");
  EXPECT_EQ(told("the sampler (/opt/plugins/mine.so) threw"), "the sampler (mine.so) threw");
  EXPECT_EQ(told("3 of 1/2, and/or none; / stays"), "3 of 1/2, and/or none; / stays");
  EXPECT_EQ(told(""), "");
  EXPECT_EQ(told("lower " + marked("batch_size")), "lower " + marked("batch_size"));
  EXPECT_EQ(with_names("/srv/graphs/products/x.npy beside /etc/ca.pem", named),
            "products/x.npy beside /etc/ca.pem");
}

class ToldByTheServer : public ServerTestWithin<120> {};

TEST_F(ToldByTheServer, ARefusal_NamesTheDatasetAndNeverItsFolder) {
  Server server(server_options());
  RawClient client(server.address());
  BatchSpec wanted = spec();
  wanted.seeds.split = "nowhere";
  std::string said = error_of([&] { open(client, 1, wanted); });
  EXPECT_NE(said.find("nowhere"), std::string::npos) << said;
  EXPECT_EQ(said.find(path(1).parent_path().string()), std::string::npos) << said;
  wanted = spec();
  wanted.batch.edge_attrs = {"nothing"};
  said = error_of([&] { open(client, 2, wanted); });
  EXPECT_NE(said.find("nothing"), std::string::npos) << said;
  EXPECT_EQ(said.find(path(1).parent_path().string()), std::string::npos) << said;
}

TEST_F(ToldByTheServer, NamesWithDirectionMarks_AreNotShownAndNotServed) {
  const std::string turned = "abc\xe2\x80\xaetxt";
  {
    Server server(server_options());
    RawClient client(server.address(), nullptr, "", turned);  // which tells its name without them
    EXPECT_EQ(open(client).num_seeds, kSeeds);
    log_->wait_for("abc?txt");
  }
  const testing::TempFolder scratch;
  const fs::path folder = scratch.path() / "d";
  fs::copy(path(1), folder, fs::copy_options::recursive);
  std::string meta = testing::file_bytes(folder / "meta.json");
  const std::string name = "\"name\": \"" + Dataset(path(1)).meta().name + "\"";
  ASSERT_NE(meta.find(name), std::string::npos);
  meta.replace(meta.find(name), name.size(), "\"name\": \"" + turned + "\"");
  testing::write_bytes(folder / "meta.json", seal_meta(meta));
  ServerOptions options = server_options();
  options.datasets = {folder.string()};
  expect_refused([&] { Server server(options); }, "d: the dataset's name 'abc?txt' is no name for a dataset");
}

}  // namespace
}  // namespace hopfeed
