// Publishers that are killed between the confirmation and the ack, and consumers that are killed
// between the commit and the ack: each message takes effect once, and streams keep their order.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int streams = 10;
constexpr int per_stream = 60;
constexpr int total = 2 * streams * per_stream;  // half of them without a stream

/// Ends this process at the call number `at`. Zero: never.
class Fuse {
 public:
  explicit Fuse(int at) : left_(at) {}
  void burn() {
    if (left_ > 0 && --left_ == 0) ::kill(::getpid(), SIGKILL);
  }

 private:
  std::atomic<int> left_;
};

/// A broker that is a file: one line for each message.
class FilePublisher final : public Publisher {
 public:
  FilePublisher(std::string path, int dies_at) : path_(std::move(path)), fuse_(dies_at) {}
  [[nodiscard]] std::string kind() const override { return "file"; }
  [[nodiscard]] std::string address() const override { return path_; }
  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& /*call*/) override {
    std::string lines;
    for (const auto& each : messages) {
      lines += each.id.to_string() + ' ' + each.stream.value_or("-") + ' ' + each.payload + '\n';
    }
    const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const bool written =
        ::write(file, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
    ::close(file);
    fuse_.burn();  // the broker has the messages, and they are not acked
    return std::vector<PublishOutcome>(
        messages.size(),
        {.result = written ? PublishResult::confirmed : PublishResult::unavailable});
  }
  void probe(const TransportCall& /*call*/) override {}

 private:
  std::string path_;
  Fuse fuse_;
};

/// The tag of a message is the place after its line. The last place that was acknowledged is in a
/// file of its own.
class FileConsumer final : public Consumer {
 public:
  FileConsumer(std::string path, int dies_at)
      : path_(std::move(path)), place_(acked()), fuse_(dies_at) {}
  [[nodiscard]] std::string kind() const override { return "file"; }
  [[nodiscard]] std::string address() const override { return path_; }
  [[nodiscard]] std::vector<IncomingMessage> fetch(std::size_t most,
                                                   const TransportCall& call) override {
    std::vector<IncomingMessage> messages;
    while (!call.stop.stop_requested() && std::chrono::steady_clock::now() < call.deadline) {
      read(most, messages);
      if (!messages.empty()) return messages;
      ::usleep(2'000);
    }
    return messages;
  }
  void ack(std::span<const std::uint64_t> tags, const TransportCall& /*call*/) override {
    fuse_.burn();  // the messages are stored, and the broker does not know it
    {
      std::ofstream out{path_ + ".new"};
      out << tags.back();
    }
    ::rename((path_ + ".new").c_str(), (path_ + ".acked").c_str());
  }
  void give_back(std::span<const std::uint64_t> /*tags*/, const TransportCall& /*call*/) override {
    place_ = acked();
  }

 private:
  [[nodiscard]] std::uint64_t acked() const {
    std::uint64_t place = 0;
    std::ifstream{path_ + ".acked"} >> place;
    return place;
  }
  void read(std::size_t most, std::vector<IncomingMessage>& messages) {
    std::ifstream in{path_};
    in.seekg(static_cast<std::streamoff>(place_));
    for (std::string line; messages.size() < most && std::getline(in, line) && !in.eof();) {
      place_ += line.size() + 1;
      IncomingMessage message{.tag = place_, .topic = "t"};
      std::string stream;
      std::istringstream words{line};
      words >> message.id >> stream >> message.payload;
      if (stream != "-") message.stream = stream;
      messages.push_back(std::move(message));
    }
  }

  std::string path_;
  std::uint64_t place_;
  Fuse fuse_;
};

class TransportFault : public BackendTest {
 protected:
  TransportFault() {
    for (const auto* each : {&backend, &receiver}) Platform::migrate(each->url(), options(*each));
    const auto* number = receiver.is_postgres() ? "bigserial primary key" : "integer primary key";
    receiver.sql("create table " + effects() + " (n " + number + ", stream text, payload text)");
  }
  [[nodiscard]] static PlatformOptions options(const Backend& of) {
    PlatformOptions options{.schema = of.schema(), .log_sink = null_log_sink()};
    options.worker.lease = milliseconds{1'000};
    return options;
  }
  [[nodiscard]] std::string effects() const {
    return receiver.is_postgres() ? receiver.schema() + ".effects" : "effects";
  }
  [[nodiscard]] std::string file() const { return (directory.path() / "broker").string(); }

  /// Publishes until its process ends, at the call number `dies_at` at the latest.
  [[nodiscard]] ChildProcess publisher(int dies_at) const {
    return ChildProcess([=, this] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto platform = Platform::open(backend.url(), options(backend));
      platform.publish("t", std::make_shared<FilePublisher>(file(), dies_at),
                       {.window = 32, .max_attempts = 1'000});
      platform.start();
      for (;;) ::pause();
    });
  }
  [[nodiscard]] ChildProcess consumer(int dies_at) const {
    return ChildProcess([=, this] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto platform = Platform::open(receiver.url(), options(receiver));
      platform.on_inbox("t", [&](const InboxMessage& message, HandlerContext& context) {
        context.transaction().execute(
            "insert into " + effects() + " (stream, payload) values ($1, $2)",
            message.stream.value_or("-"), message.payload);
      });
      platform.consume(std::make_shared<FileConsumer>(file(), dies_at),
                       {.source = "file", .prefetch = 20});
      platform.start();
      for (;;) ::pause();
    });
  }
  void enqueue_all() const {
    auto platform = Platform::open(backend.url(), options(backend));
    for (int i = 0; i < per_stream; ++i) {
      std::vector<EnqueueRequest> requests;
      for (int s = 0; s < streams; ++s) {
        requests.push_back(
            {.topic = "t", .payload = std::to_string(i), .stream = "s" + std::to_string(s)});
        requests.push_back({.topic = "t", .payload = "f" + std::to_string(i * streams + s)});
      }
      platform.outbox().enqueue_many(requests);
    }
  }
  [[nodiscard]] std::size_t lines() const {
    std::ifstream in{file()};
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>{in}, {}, '\n'));
  }
  void expect_each_once_in_order() const {
    std::map<std::string, int> next;
    std::map<std::string, int> free;
    for (const auto& row :
         receiver.sql("select stream, payload from " + effects() + " order by n")) {
      const auto stream = row.get<std::string>(0);
      const auto payload = row.get<std::string>(1);
      if (stream == "-") {
        EXPECT_EQ(++free[payload], 1) << payload;
      } else {
        EXPECT_EQ(std::stoi(payload), next[stream]++) << stream;
      }
    }
    EXPECT_EQ(free.size(), static_cast<std::size_t>(streams * per_stream));
    for (const auto& [stream, count] : next) EXPECT_EQ(count, per_stream) << stream;
  }

  Backend receiver{GetParam(), Tables::may_exist};
  TemporaryDirectory directory;
};
DOVETAIL_CONTRACT(TransportFault);

TEST_P(TransportFault, KillsBetweenConfirmationAndAckCauseNoSecondEffect) {
  ASSERT_EQ(ChildProcess([this] { enqueue_all(); }).wait(), 0);
  for (int round = 1; round <= 5; ++round) {
    EXPECT_EQ(publisher(2 * round).wait(), -SIGKILL);
    EXPECT_EQ(consumer(round).wait(), -SIGKILL);
  }
  auto publishing = publisher(0);
  auto consuming = consumer(0);
  const auto effect_count = [&] { return receiver.number("select count(*) from " + effects()); };
  EXPECT_TRUE(eventually([&] { return effect_count() >= total; }, seconds{90})) << effect_count();
  publishing.signal(SIGKILL);
  publishing.wait();
  consuming.signal(SIGKILL);
  consuming.wait();
  expect_each_once_in_order();
  EXPECT_GT(lines(), static_cast<std::size_t>(total)) << "no message was published twice";
}

}  // namespace
}  // namespace dovetail::testing
