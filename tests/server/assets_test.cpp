// The page and the files of the dashboard, and answers that its tabs share.
#include <gmock/gmock.h>

#include <atomic>
#include <regex>
#include <thread>

#include "server/answer_cache.hpp"
#include "server/assets.hpp"
#include "server/assets_data.hpp"
#include "server/route_table.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string wants_html = "Accept: text/html,*/*;q=0.8";

class ServerAssets : public SqliteServerTest {
 protected:
  void SetUp() override {
    if (server::embedded_page().empty()) GTEST_SKIP() << "built without the dashboard";
  }
  /// The path of the script that the page names.
  std::string script() {
    const auto page = get("/", {wants_html}).body;
    std::smatch found;
    EXPECT_TRUE(std::regex_search(page, found, std::regex("src=\"([^\"]+)\""))) << page;
    return found[1];
  }
};

TEST_F(ServerAssets, BrowsersGetThePageForEveryPath) {
  serve();
  for (const auto* path : {"/", "/messages", "/jobs/a%2Fb", "/messages?state=failed"}) {
    const auto answer = get(path, {wants_html});
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.header("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(answer.header("cache-control"), "no-cache");
    EXPECT_THAT(answer.header("content-security-policy"), HasSubstr("default-src 'none'"));
    EXPECT_THAT(answer.body, Not(HasSubstr("{{")));
  }
  EXPECT_EQ(get("/messages").status, 404);
  for (const auto* path : {"/api/v1/none", "/assets/none.js", "/health/none", "/metrics/none"})
    EXPECT_EQ(get(path, {wants_html}).header("content-type"), "application/problem+json") << path;
  EXPECT_EQ(client().ask("POST", "/messages", {wants_html}, "{}").status, 404);
}

TEST_F(ServerAssets, FilesAreCompressedAndKept) {
  serve();
  const auto answer = get(script(), {"Accept-Encoding: deflate, gzip;q=0.5"});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-encoding"), "gzip");
  EXPECT_EQ(answer.header("content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(answer.header("cache-control"), "public, max-age=31536000, immutable");
  EXPECT_EQ(answer.body.substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(get(script(), {"Accept-Encoding: gzip;q=0"}).status, 406);
  EXPECT_EQ(get(script(), {"Accept-Encoding: identity"}).status, 406);
  EXPECT_EQ(get(script(), {"Accept-Encoding: *"}).status, 200);
  EXPECT_EQ(get("/assets/none.js").status, 404);
}

TEST_F(ServerAssets, TheBasePathIsInThePage) {
  auto options = test_server_options();
  options.base_path = "/ops/dovetail";
  serve(std::move(options));
  EXPECT_THAT(get("/ops/dovetail/joins", {wants_html}).body,
              HasSubstr(R"(<meta name="dovetail-base" content="/ops/dovetail">)"));
  EXPECT_THAT(script(), ::testing::StartsWith("/ops/dovetail/assets/"));
  EXPECT_EQ(get(script()).status, 200);
}

TEST_F(ServerAssets, ThePageNeedsNoLoginAndTheDataDoes) {
  auto options = test_server_options();
  options.auth.tokens = {{"ci", std::string(64, 'a'), ServerRole::viewer}};
  serve(std::move(options));
  EXPECT_EQ(get("/", {wants_html}).status, 200);
  EXPECT_EQ(get(script()).status, 200);
  EXPECT_EQ(get("/api/v1/session").status, 401);
}

TEST_F(ServerAssets, AllFilesThatThePageLoadsAreSmall) {
  std::size_t total = 0;
  for (const auto& asset : server::embedded_assets()) {
    if (!asset.name.ends_with(".txt")) total += asset.gzip.size();
  }
  EXPECT_LE(total, 80U * 1024);
}

TEST_F(ServerAssets, TheLicensesOfThePackagesAreServed) {
  serve();
  const auto page = get("/", {wants_html}).body;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(page, found, std::regex("rel=\"license\" href=\"([^\"]+)\"")));
  const auto answer = get(found[1].str(), {"Accept-Encoding: gzip"});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-type"), "text/plain; charset=utf-8");
}

class SharedAnswers : public ::testing::Test {
 protected:
  server::Request request(const std::string& caching, const std::string& topic = "t") const {
    return {.route = &route,
            .method = "GET",
            .query = {{"topic", topic}},
            .headers = {{"cache-control", caching}}};
  }
  std::string ask(const server::Request& request) {
    return cache.answer(request, [&] { return server::Response{.body = std::to_string(++calls)}; })
        .body;
  }

  server::Route route{.method = "GET", .pattern = "/x"};
  server::AnswerCache cache;
  std::atomic<int> calls = 0;
};

TEST_F(SharedAnswers, OnlyThoseWhoAcceptItGetAnOldAnswer) {
  EXPECT_EQ(ask(request("max-age=60")), "1");
  EXPECT_EQ(ask(request("max-age=60")), "1");
  EXPECT_EQ(ask(request("no-cache")), "2");
  EXPECT_EQ(ask(request("max-age=60", "other")), "3");
  auto admin = request("max-age=60");
  admin.identity.role = ServerRole::admin;
  EXPECT_EQ(ask(admin), "4");
  cache.clear();
  EXPECT_EQ(ask(request("max-age=60")), "5");
}

TEST_F(SharedAnswers, ErrorsAreNotKept) {
  const auto fails = [&] { return server::Response{.status = 503}; };
  EXPECT_EQ(cache.answer(request("max-age=60"), fails).status, 503);
  EXPECT_EQ(ask(request("max-age=60")), "1");
}

TEST_F(SharedAnswers, EqualRequestsAtTheSameTimeAreComputedOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(ask(request("max-age=60")), "1"); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace dovetail::testing
