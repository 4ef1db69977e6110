// Publishing to NATS JetStream: a raw libnats publisher and Dovetail's, one after the other, in one
// run against the same server and with the same window.
//
//   bench_nats nats://HOST:PORT [MESSAGES [WINDOW [PAYLOAD BYTES [DATABASE]]]]
//
// With an empty database, the messages also go from its outbox to the server. ./bench/nats starts a
// server for it. The raw publisher uses js_PublishMsgAsync. It sends the id
// of a message only; Dovetail sends a CloudEvent.
#include <nats/nats.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"
#include "dovetail/nats.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int rounds = 5;

struct Setting {
  std::string url;
  int messages = 50'000;
  int window = 256;
  std::size_t payload = 256;
  std::string database{};
};

void require(natsStatus status, const char* step) {
  if (status != NATS_OK) {
    throw std::runtime_error(std::string{step} + ": " + natsStatus_GetText(status));
  }
}

/// A connection with an empty stream.
class Raw {
 public:
  explicit Raw(const Setting& setting) {
    require(natsConnection_ConnectTo(&connection_, setting.url.c_str()), "connect");
    jsOptions options;
    jsOptions_Init(&options);
    options.PublishAsync.MaxPending = setting.window;
    options.PublishAsync.StallWait = 30'000;
    require(natsConnection_JetStream(&js_, connection_, &options), "JetStream");
    js_DeleteStream(js_, "BENCH", nullptr, nullptr);
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = "BENCH";
    const char* subjects[] = {"bench.>"};
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    require(js_AddStream(nullptr, js_, &config, nullptr, nullptr), "the stream");
  }
  ~Raw() {
    jsCtx_Destroy(js_);
    natsConnection_Destroy(connection_);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void publish(const std::vector<dovetail::Message>& messages) {
    for (const auto& message : messages) {
      natsMsg* native = nullptr;
      require(natsMsg_Create(&native, "bench.order", nullptr, message.payload.data(),
                             static_cast<int>(message.payload.size())),
              "a message");
      const auto id = message.id.to_string();
      jsPubOptions options;
      jsPubOptions_Init(&options);
      options.MsgId = id.c_str();
      require(js_PublishMsgAsync(js_, &native, &options), "publish");
    }
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MaxWait = 60'000;
    require(js_PublishAsyncComplete(js_, &options), "the last answers");
  }
  std::uint64_t stored() {
    jsStreamInfo* info = nullptr;
    require(js_GetStreamInfo(&info, js_, "BENCH", nullptr, nullptr), "the stream");
    const auto count = info->State.Msgs;
    jsStreamInfo_Destroy(info);
    return count;
  }

 private:
  natsConnection* connection_ = nullptr;
  jsCtx* js_ = nullptr;
};

std::vector<dovetail::Message> make_messages(const Setting& setting) {
  std::vector<dovetail::Message> messages(static_cast<std::size_t>(setting.messages));
  for (auto& message : messages) {
    message.id = message.message_id = dovetail::MessageId::generate();
    message.topic = "order";
    message.payload.assign(setting.payload, 'x');
  }
  return messages;
}

/// Publishes through Dovetail, a window at a time.
void publish(dovetail::Publisher& publisher, std::span<const dovetail::Message> messages,
             std::size_t window) {
  while (!messages.empty()) {
    const auto batch = messages.subspan(0, std::min(window, messages.size()));
    const auto outcomes =
        publisher.publish(batch, {.deadline = Clock::now() + std::chrono::seconds{60}, .stop = {}});
    for (const auto& outcome : outcomes) {
      if (outcome.result != dovetail::PublishResult::confirmed) {
        throw std::runtime_error("not confirmed: " + outcome.reason);
      }
    }
    messages = messages.subspan(batch.size());
  }
}

/// As a route does it: two threads, each with half of the window.
void publish_in_lanes(dovetail::Publisher& publisher, std::span<const dovetail::Message> messages,
                      std::size_t window) {
  const auto half = messages.size() / 2;
  auto other = std::async(std::launch::async, [&] {
    publish(publisher, messages.subspan(half), std::max<std::size_t>(window / 2, 1));
  });
  publish(publisher, messages.first(half), std::max<std::size_t>(window / 2, 1));
  other.get();
}

double rate(const Setting& setting, const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  const std::chrono::duration<double> took = Clock::now() - begin;
  return setting.messages / took.count();
}

/// The messages of an outbox that are published in a second. They are enqueued before.
double rate_of_outbox(const Setting& setting,
                      const std::shared_ptr<dovetail::Publisher>& publisher) {
  Raw raw(setting);
  auto platform = dovetail::Platform::open(setting.database, {.deploy_schema = true});
  const dovetail::EnqueueRequest request{.topic = "order",
                                         .payload = std::string(setting.payload, 'x')};
  const std::vector requests(1'000, request);
  for (int i = 0; i < setting.messages; i += 1'000) platform.outbox().enqueue_many(requests);
  platform.publish("order", publisher, {.window = setting.window});
  const auto all = platform.outbox().counts().ready;
  const auto result = rate(setting, [&] {
    platform.start();
    while (raw.stored() < static_cast<std::uint64_t>(all)) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  });
  platform.stop();
  return result;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void run(const Setting& setting) {
  const auto publisher =
      dovetail::Nats({.urls = {setting.url}}).publisher({.subject = "bench.{topic}"});
  std::vector<double> raw_rates;
  std::vector<double> own_rates;
  std::vector<double> outbox_rates;
  for (int round = 0; round < rounds; ++round) {
    const auto messages = make_messages(setting);
    {
      Raw raw(setting);
      raw_rates.push_back(rate(setting, [&] { raw.publish(messages); }));
    }
    Raw fresh(setting);
    own_rates.push_back(rate(setting, [&] {
      publish_in_lanes(*publisher, messages, static_cast<std::size_t>(setting.window));
    }));
    if (fresh.stored() != messages.size()) throw std::runtime_error("messages are missing");
    if (!setting.database.empty()) outbox_rates.push_back(rate_of_outbox(setting, publisher));
  }
  const auto raw = median(raw_rates);
  const auto own = median(own_rates);
  std::printf("%d messages of %zu bytes, window %d, median of %d\n", setting.messages,
              setting.payload, setting.window, rounds);
  std::printf("raw libnats          %9.0f messages/s\n", raw);
  std::printf("Dovetail's publisher %9.0f messages/s, %.2f of raw\n", own, own / raw);
  if (outbox_rates.empty()) return;
  const auto outbox = median(outbox_rates);
  std::printf("from the outbox      %9.0f messages/s, %.2f of raw\n", outbox, outbox / raw);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_nats URL [MESSAGES [WINDOW [PAYLOAD BYTES [DATABASE]]]]\n");
    return 2;
  }
  Setting setting{.url = argv[1]};
  if (argc > 2) setting.messages = std::atoi(argv[2]);
  if (argc > 3) setting.window = std::atoi(argv[3]);
  if (argc > 4) setting.payload = static_cast<std::size_t>(std::atoi(argv[4]));
  if (argc > 5) setting.database = argv[5];
  try {
    run(setting);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_nats: %s\n", error.what());
    return 1;
  }
  return 0;
}
