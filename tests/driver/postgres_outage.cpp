// Servers that are down, frozen, locked, or refuse connections: calls and stop() end within their
// time limits, and errors name the reason.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "postgres/connection.hpp"
#include "support/backend.hpp"
#include "support/cutting_proxy.hpp"
#include "support/eventually.hpp"
#include "support/health_reports.hpp"
#include "support/recorded_lines.hpp"
#include "support/refusing_server.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Steady = std::chrono::steady_clock;

/// Longer than a loaded machine needs for calls with the time limits of options().
constexpr auto recovery_limit = 5s;

class PostgresOutage : public ::testing::Test {
 protected:
  static Error failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return Error({ErrorKind::other, "", "none"}, "nothing failed");
  }
  PlatformOptions options() {
    auto options = backend.options();
    options.connect_timeout = 300ms;
    options.retry_for = 300ms;
    return options;
  }
  static Error failure_to_open(const std::string& url, PlatformOptions options) {
    return failure_of([&] { (void)Platform::open(url, std::move(options)); });
  }

  Backend backend{BackendKind::postgres};
};

TEST_F(PostgresOutage, OpeningFailsWithinFiveSecondsByDefault) {
  EXPECT_LT(PlatformOptions{}.connect_timeout, 5s);
}

TEST_F(PostgresOutage, OpeningAgainstAServerThatIsDownTellsTheReason) {
  const auto begun = Steady::now();
  const auto error = failure_to_open("postgresql://127.0.0.1:1/x", options());
  EXPECT_EQ(error.kind(), ErrorKind::connection_lost);
  EXPECT_THAT(error.what(), HasSubstr("Connection refused"));
  EXPECT_LT(Steady::now() - begun, recovery_limit);
}

TEST_F(PostgresOutage, OpeningAgainstAServerThatDoesNotAnswerSaysSo) {
  CuttingProxy proxy(backend.url());
  proxy.freeze();
  const auto error = failure_to_open(proxy.url(), options());
  EXPECT_EQ(error.kind(), ErrorKind::connection_lost);
  EXPECT_THAT(error.what(), HasSubstr("did not answer within 300 ms"));
}

TEST_F(PostgresOutage, ADatabaseThatDoesNotAnswerIsUnhealthy) {
  auto proxy = std::make_unique<CuttingProxy>(backend.url());
  auto options = this->options();
  options.health.cache = 0ms;
  auto platform = Platform::open(proxy->url(), options);
  EXPECT_EQ(platform.health().all().status, HealthStatus::healthy);
  proxy.reset();
  const auto report = platform.health().all();
  EXPECT_EQ(report.status, HealthStatus::unhealthy);
  EXPECT_THAT(names_of(report), ElementsAre("database", "started")) << "the others are left out";
  EXPECT_EQ(check_named(report, "database").status, HealthStatus::unhealthy);
  EXPECT_EQ(platform.health().live().status, HealthStatus::healthy);
}

TEST_F(PostgresOutage, TheConnectTimeoutOfTheUrlWins) {
  CuttingProxy proxy(backend.url());
  proxy.freeze();
  const auto error = failure_to_open(proxy.url() + "?connect_timeout=1", options());
  EXPECT_THAT(error.what(), HasSubstr("did not answer within 1000 ms"));
}

TEST_F(PostgresOutage, AnUnknownHostIsNamed) {
  const auto begun = Steady::now();
  const auto error = failure_to_open("postgresql://no-such-host.invalid/x", options());
  EXPECT_EQ(error.statement(), "connect");
  EXPECT_THAT(error.what(), HasSubstr("cannot resolve host name \"no-such-host.invalid\""));
  EXPECT_LT(Steady::now() - begun, recovery_limit);
}

TEST_F(PostgresOutage, OneOfSeveralHostsIsEnough) {
  auto url = backend.url();
  const auto host = url.find("127.0.0.1");
  ASSERT_NE(host, std::string::npos);
  const auto port = url.substr(host + 10, url.find('/', host) - host - 10);
  url.replace(host, 10 + port.size(), "127.0.0.1:1,127.0.0.1:" + port);
  EXPECT_NO_THROW((void)Platform::open(url, options()));
}

TEST_F(PostgresOutage, AHostThatDoesNotAnswerLeavesTimeForTheNext) {
  CuttingProxy silent(backend.url());
  silent.freeze();
  const auto address = [](const std::string& url) {
    const auto host = url.find("127.0.0.1");
    return url.substr(host, url.find('/', host) - host);
  };
  auto url = backend.url();
  const auto own = address(url);
  url.replace(url.find(own), own.size(), address(silent.url()) + "," + own);
  auto patient = options();
  patient.connect_timeout = 4s;
  EXPECT_NO_THROW((void)Platform::open(url, patient));
  url.replace(url.find(own), own.size(), "127.0.0.1:1");
  const auto error = failure_to_open(url, options());
  EXPECT_THAT(error.what(), HasSubstr("Connection refused")) << "of the last host";
  EXPECT_TRUE(error.is_transient());
}

/// Accepts connections at an address and answers nothing.
class SilentAddress {
 public:
  SilentAddress(const char* address, std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    ::inet_pton(AF_INET, address, &name.sin_addr);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
        ::listen(socket_, 16) != 0) {
      throw std::runtime_error("cannot listen at " + std::string{address});
    }
  }
  ~SilentAddress() { ::close(socket_); }
  SilentAddress(const SilentAddress&) = delete;
  SilentAddress& operator=(const SilentAddress&) = delete;

 private:
  int socket_;
};

TEST_F(PostgresOutage, AnAddressThatDoesNotAnswerLeavesTimeForTheNextOfTheSameName) {
  auto url = backend.url();
  const auto host = url.find("127.0.0.1");
  ASSERT_NE(host, std::string::npos);
  const auto port = url.substr(host + 10, url.find('/', host) - host - 10);
  url.replace(host, 9, "several.test");
  const SilentAddress silent("127.0.0.2", static_cast<std::uint16_t>(std::stoi(port)));
  const postgres::ConnectionSettings settings(url);
  postgres::ConnectOptions connect{.timeout = 4s, .resolve = [](const std::string& name) {
                                     EXPECT_EQ(name, "several.test");
                                     return postgres::Addresses{0, {"127.0.0.2", "127.0.0.1"}};
                                   }};
  EXPECT_NE(postgres::Connection::open(settings, {}, connect), nullptr);
  connect.timeout = 300ms;
  connect.resolve = [](const std::string&) { return postgres::Addresses{0, {"127.0.0.2"}}; };
  const auto error = failure_of([&] { (void)postgres::Connection::open(settings, {}, connect); });
  EXPECT_THAT(error.what(), HasSubstr("several.test"));
  EXPECT_THAT(error.what(), HasSubstr("did not answer within 300 ms"));
}

TEST_F(PostgresOutage, ANameWithAddressesIsNotLookedUpAgain) {
  const postgres::ConnectionSettings settings("postgresql://several.test/x");
  const auto each = settings.for_each_address({"::1", "127.0.0.1"});
  ASSERT_EQ(each.size(), 2U);
  EXPECT_EQ(each[0].get("hostaddr"), "::1");
  EXPECT_EQ(each[1].get("hostaddr"), "127.0.0.1");
  EXPECT_EQ(each[1].get("host"), "several.test") << "certificates are checked against the name";
  EXPECT_EQ(settings.for_each_address({}).size(), 1U);
  EXPECT_FALSE(postgres::resolve_host("localhost").addresses.empty());
}

TEST_F(PostgresOutage, AReasonThatDoesNotPassIsNotRetried) {
  for (const char* code : {"28P01", "3D000", "08P01"}) {
    const RefusingServer server(code, "no");
    auto longer = options();
    longer.connect_timeout = 60s;
    const auto error = failure_to_open(server.url(), longer);
    EXPECT_EQ(error.native_code(), code);
    EXPECT_FALSE(error.is_transient());
    EXPECT_EQ(server.refusals(), 1) << code;
  }
}

TEST_F(PostgresOutage, AServerThatStartsUpIsAskedAgain) {
  const RefusingServer server("57P03", "the database system is starting up");
  auto longer = options();
  longer.connect_timeout = 2s;
  const auto error = failure_to_open(server.url(), longer);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("starting up"), HasSubstr("57P03")));
  EXPECT_GT(server.refusals(), 1);
}

TEST_F(PostgresOutage, AMissingPooledIsNamedAtOnce) {
  const RefusingServer server("08P01", "unsupported startup parameter: options");
  const auto error = failure_to_open(server.url(), options());
  EXPECT_THAT(error.what(), AllOf(HasSubstr("unsupported startup parameter: options"),
                                  HasSubstr("PlatformOptions::pooled"), HasSubstr("--pooled")));
}

TEST_F(PostgresOutage, ACallGivesUpAfterRetryFor) {
  std::optional<CuttingProxy> proxy(std::in_place, backend.url());
  auto longer = options();
  longer.retry_for = 4s;
  auto platform = Platform::open(proxy->url(), longer);
  proxy.reset();
  auto begun = Steady::now();
  const auto error = failure_of([&] { platform.outbox().enqueue({.topic = "t"}); });
  EXPECT_EQ(error.kind(), ErrorKind::connection_lost);
  EXPECT_THAT(error.what(), HasSubstr("Connection refused"));
  EXPECT_LT(Steady::now() - begun, 5500ms) << "a shared write and a write alone have one limit";
  begun = Steady::now();
  EXPECT_THROW((void)platform.begin(), Error);
  EXPECT_LT(Steady::now() - begun, 5500ms);
}

TEST_F(PostgresOutage, TimeLimitsThatCannotWorkAreRefusedBeforeAnyIo) {
  auto options = backend.options();
  options.connect_timeout = 0ms;
  EXPECT_THROW((void)Platform::open("postgresql://127.0.0.1:1/x", options), std::out_of_range);
  options = backend.options();
  options.retry_for = -1ms;
  EXPECT_THROW((void)Platform::open("postgresql://127.0.0.1:1/x", options), std::out_of_range);
}

/// A platform behind a proxy, with a handler that waits until it may end.
class PostgresStop : public PostgresOutage {
 protected:
  void SetUp() override {
    auto stopping = options();
    stopping.retry_for = 60s;
    stopping.worker.drain = 200ms;
    stopping.worker.poll_interval = stopping.worker.idle_poll_interval = 20ms;
    platform.emplace(Platform::open(proxy->url(), stopping));
    platform->on("t", [this](const Message&, HandlerContext& context) {
      begun.set_value();
      may_end.get_future().wait();
      if (uses_transaction) context.transaction().execute("select 1");
    });
    platform->on_inbox("t", [](const InboxMessage&, HandlerContext&) {});  // a second dispatcher
    platform->start();
    platform->outbox().enqueue({.topic = "t"});
    begun.get_future().wait();
  }
  /// Stops while the message of the handler is not settled yet.
  void expect_quick_stop() {
    const auto from = Steady::now();
    may_end.set_value();
    platform->stop(1s);
    const auto stopped = Steady::now();
    EXPECT_LT(stopped - from, 4s) << "all services have one time limit";
    platform.reset();
    EXPECT_LT(Steady::now() - stopped, longest_destructor);
  }

  std::optional<CuttingProxy> proxy{std::in_place, backend.url()};
  std::promise<void> begun;
  std::promise<void> may_end;
  bool uses_transaction = false;
  std::chrono::milliseconds longest_destructor = 1500ms;
  std::optional<Platform> platform;
};

TEST_F(PostgresStop, KeepsItsDeadlineWhenTheServerIsDown) {
  proxy.reset();
  expect_quick_stop();
}

TEST_F(PostgresStop, KeepsItsDeadlineWhenTheServerIsFrozen) {
  proxy->freeze();
  expect_quick_stop();
}

TEST_F(PostgresStop, KeepsItsDeadlineBehindATableLock) {
  UserConnection other(backend);
  other.execute("begin");
  other.execute("lock table " + backend.table("outbox") + " in access exclusive mode");
  expect_quick_stop();
}

TEST_F(PostgresStop, TheDestructorDoesNotWaitForAHandlersStatementOnAFrozenServer) {
  uses_transaction = true;
  longest_destructor = 10s;  // it ends the statement of the handler, too
  proxy->freeze();
  expect_quick_stop();
}

TEST_F(PostgresOutage, AStatementThatTheFrozenServerDoesNotCancelIsGivenUp) {
  CuttingProxy proxy(backend.url());
  auto platform = Platform::open(proxy.url(), options());
  platform.outbox().reap_expired({});  // opens the connection that the next call uses
  proxy.freeze();
  std::stop_source source;
  std::jthread stopper([&] {
    eventually([&] { return proxy.holds_something_back(); });
    source.request_stop();
  });
  const auto error =
      failure_of([&] { platform.outbox().reap_expired({.stop = source.get_token()}); });
  EXPECT_TRUE(error.is_in_doubt())
      << error.what();  // a statement outside a transaction: it may have taken effect
  proxy.thaw();
  EXPECT_NO_THROW(platform.outbox().enqueue({.topic = "t"})) << "on a new connection";
}

TEST_F(PostgresOutage, AProcessThatEndsAtOnceStillWakesTheWorkers) {
  (void)backend.open();
  const std::unique_ptr<PGconn, decltype(&PQfinish)> listener{PQconnectdb(backend.url().c_str()),
                                                              &PQfinish};
  PQclear(PQexec(listener.get(), ("listen dovetail_" + backend.schema()).c_str()));
  for (int i = 0; i < 5; ++i) {
    backend.open().timers().schedule({.topic = "t", .due_at = backend.now() + 1h});
    EXPECT_TRUE(eventually([&] {
      PQconsumeInput(listener.get());
      auto* notification = PQnotifies(listener.get());
      if (notification == nullptr) return false;
      PQfreemem(notification);
      return true;
    })) << i;
  }
}

}  // namespace
}  // namespace dovetail::testing
