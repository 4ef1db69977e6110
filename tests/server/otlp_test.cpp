// The exporter of spans, against a small collector.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "dovetail/otlp.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Accepts one request at a time, on a free port of the loopback interface.
class Collector {
 public:
  explicit Collector(std::string answer = "200 OK") : answer_(std::move(answer)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, generic, size) != 0 || ::listen(socket_, 8) != 0 ||
        ::getsockname(socket_, generic, &size) != 0) {
      throw std::runtime_error("the collector cannot listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces";
  }
  [[nodiscard]] std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// The spans of all requests.
  [[nodiscard]] std::vector<nlohmann::json> spans() const {
    std::vector<nlohmann::json> all;
    for (const auto& request : requests()) {
      const auto body = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
      for (const auto& span : body.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans")) {
        all.push_back(span);
      }
    }
    return all;
  }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      while (const auto request = read_request(client)) {
        {
          const std::lock_guard lock(mutex_);
          requests_.push_back(*request);
        }
        const auto reply = "HTTP/1.1 " + answer_ + "\r\nContent-Length: 2\r\n\r\n{}";
        if (::send(client, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) break;
      }
      ::close(client);
    }
  }
  static std::optional<std::string> read_request(int client) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
      const auto end = text.find("\r\n\r\n");
      const auto length = text.find("Content-Length: ");
      if (end != text.npos && length != text.npos &&
          text.size() >= end + 4 + std::stoul(text.substr(length + 16))) {
        return text;
      }
      const auto count = ::recv(client, buffer.data(), buffer.size(), 0);
      if (count <= 0) return std::nullopt;
      text.append(buffer.data(), static_cast<std::size_t>(count));
      if (end != text.npos && text.find("Expect: 100-continue") < end) {
        const std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        ::send(client, go_on.data(), go_on.size(), MSG_NOSIGNAL);
      }
    }
  }

  const std::string answer_;
  int socket_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

Span span_named(const std::string& name) {
  const auto producer = TraceContext::begin();
  return {.kind = SpanKind::consumer,
          .name = name,
          .context = producer.child(),
          .parent = producer,
          .started_at = WallTime{std::chrono::microseconds{1'700'000'000'000'001}},
          .ended_at = WallTime{std::chrono::microseconds{1'700'000'000'000'002}},
          .attributes = {{"messaging.destination.name", "a\"\xff"}}};
}

TEST(OtlpExporter, SendsSpansOfHandlersToACollector) {
  Collector collector;
  const Backend backend(BackendKind::sqlite);
  auto options = backend.options();
  options.trace_sink =
      std::make_shared<OtlpExporter>(OtlpOptions{.endpoint = collector.url(),
                                                 .service_name = "orders",
                                                 .headers = {"authorization: Bearer secret"},
                                                 .interval = std::chrono::milliseconds{10}});
  auto platform = Platform::open(backend.url(), options);
  platform.on("a", [](const Message&, HandlerContext&) { throw PermanentFailure("no"); });
  platform.outbox().enqueue({.topic = "a"});
  platform.start();
  ASSERT_TRUE(eventually([&] { return collector.spans().size() == 2; }));
  const auto produced = collector.spans()[0];
  const auto consumed = collector.spans()[1];
  EXPECT_EQ(produced.at("name"), "enqueue a");
  EXPECT_EQ(produced.at("kind"), 4);
  EXPECT_EQ(consumed.at("name"), "process a");
  EXPECT_EQ(consumed.at("kind"), 5);
  EXPECT_EQ(consumed.at("traceId"), produced.at("traceId"));
  EXPECT_EQ(consumed.at("parentSpanId"), produced.at("spanId"));
  EXPECT_EQ(consumed.at("status").at("message"), "no");
  const auto request = collector.requests().at(0);
  EXPECT_THAT(request, HasSubstr("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("authorization: Bearer secret\r\n"));
  EXPECT_THAT(request, HasSubstr("content-type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr(R"({"key":"service.name","value":{"stringValue":"orders"}})"));
}

TEST(OtlpExporter, SendsWhatWaitsAtItsEndInValidJson) {
  Collector collector;
  {
    OtlpExporter exporter({.endpoint = collector.url(), .interval = std::chrono::seconds{60}});
    for (int i = 0; i < 700; ++i) exporter.end(span_named("s" + std::to_string(i)));
  }
  const auto spans = collector.spans();
  ASSERT_THAT(spans, SizeIs(700));
  EXPECT_EQ(spans[0].at("startTimeUnixNano"), "1700000000000001000");
  EXPECT_EQ(spans[699].at("name"), "s699");
}

TEST(OtlpExporter, DropsSpansBeyondItsLimitWithoutWaiting) {
  OtlpExporter exporter({.endpoint = "http://127.0.0.1:9/",
                         .max_queue = 10,
                         .max_batch = 10'000,
                         .interval = std::chrono::seconds{60}});
  for (int i = 0; i < 25; ++i) exporter.end(span_named("s"));
  EXPECT_EQ(exporter.counts().dropped, 15U);
}

TEST(OtlpExporter, CountsWhatTheCollectorRefuses) {
  Collector collector("503 Service Unavailable");
  const auto registry = std::make_shared<MetricsRegistry>();
  OtlpExporter exporter({.endpoint = collector.url(), .interval = std::chrono::milliseconds{1}},
                        Metrics{registry});
  exporter.end(span_named("s"));
  EXPECT_TRUE(eventually([&] { return exporter.counts().dropped == 1; }));
  EXPECT_EQ(exporter.counts().last_error, "the collector answered 503");
  EXPECT_TRUE(
      eventually([&] { return registry->snapshot().counter("dovetail_trace_spans_total") == 1; }));
  EXPECT_EQ(exporter.counts().sent, 0U);
}

TEST(OtlpExporter, RefusesBadOptions) {
  EXPECT_THROW(OtlpExporter({.endpoint = "file:///etc/passwd"}), std::invalid_argument);
  EXPECT_THROW(OtlpExporter({.headers = {"a: b\r\nc: d"}}), std::invalid_argument);
  EXPECT_THROW(OtlpExporter({.max_queue = 0}), std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
