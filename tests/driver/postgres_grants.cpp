// The rights that `dovetail grants` prints are sufficient, and a producer gets no others.
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

class PostgresGrants : public ::testing::Test {
 protected:
  void SetUp() override {
    (void)backend.open();
    backend.sql("create role " + role);
  }
  void TearDown() override {
    backend.sql("drop owned by " + role);
    backend.sql("drop role " + role);
  }
  void grant(RolePurpose purpose) {
    backend.sql(Platform::grants(backend.url(), role, purpose, backend.options()));
  }
  /// All statements run as the role, which cannot log in itself.
  [[nodiscard]] std::string url() const { return backend.url() + "?options=-c%20role%3D" + role; }
  [[nodiscard]] Platform open_as_role() const {
    auto options = backend.options();
    options.deploy_schema = false;
    return Platform::open(url(), options);
  }
  static ErrorKind kind_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::other;
  }

  Backend backend{BackendKind::postgres};
  std::string role = "r_" + backend.schema();
};

TEST_F(PostgresGrants, WithoutThemTheRoleCannotEvenOpen) {
  EXPECT_ANY_THROW((void)open_as_role());
}

TEST_F(PostgresGrants, AWorkersRightsAreEnoughForEverything) {
  grant(RolePurpose::worker);
  std::atomic<int> handled{0};
  auto platform = open_as_role();
  EXPECT_EQ(platform.begin().query("select current_user::text").at(0).get<std::string>(0), role);
  const auto count = [&](const auto&, HandlerContext& context) {
    context.transaction().execute("select 1");
    ++handled;
  };
  platform.on("t", count);
  platform.on("joined", count);
  platform.on("fired", count);
  platform.on("job", count);
  platform.on_inbox("t", count);
  platform.fanout().add({.topic = "etl", .work_key = "k"}, [](const FanoutPlan&) {
    return std::vector<FanoutCandidate>{{.shard_key = "s"}};
  });
  platform.fanout().on("etl", "k", count);
  platform.fanout().run_now("etl");
  const auto join = platform.joins().start({.expected_steps = 1});
  const auto step = platform.outbox().enqueue({.topic = "t"});
  platform.joins().attach(join, step);
  EXPECT_TRUE(platform.leases().try_acquire("lease", "me", 10s).has_value());
  platform.events().append("s", ExpectedVersion::any(), {{.type = "T"}}, {.publish = true});
  EXPECT_EQ(platform.events().stamp(), 1);
  EXPECT_EQ(platform.events().read_all().events.size(), 1U);
  platform.timers().schedule({.topic = "fired", .due_at = backend.now()});
  platform.jobs().create_or_update({.name = "job", .topic = "job", .cron = "0 0 1 1 *"});
  platform.jobs().trigger("job");
  platform.inbox().enqueue({.topic = "t", .source = "s", .message_id = "1"});
  platform.start();
  EXPECT_TRUE(eventually([&] { return handled >= 5; })) << handled;
  platform.stop();
  platform.outbox().enqueue({.topic = "t", .message_id = MessageId::generate()});
  const auto owner = OwnerToken::generate();
  const auto claimed = platform.outbox().claim({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(platform.outbox().ack(owner, std::vector{claimed[0].claim}), 1U);
  EXPECT_EQ(kind_of([&] {
              auto transaction = platform.begin();
              transaction.execute("delete from " + backend.table("schema_migrations"));
            }),
            ErrorKind::permission);
}

TEST_F(PostgresGrants, AProducerEnqueuesAndSchedulesAndNothingElse) {
  grant(RolePurpose::producer);
  auto platform = open_as_role();
  auto& outbox = platform.outbox();
  outbox.enqueue({.topic = "t", .payload = "secret"});
  const auto id = MessageId::generate();
  outbox.enqueue({.topic = "t", .message_id = id, .unique_key = "key"});
  outbox.enqueue({.topic = "t", .message_id = id});
  outbox.enqueue_many(std::vector<EnqueueRequest>(100, {.topic = "t"}));
  outbox.enqueue_many(std::vector<EnqueueRequest>(2, {.topic = "t", .unique_key = "other"}));
  platform.timers().schedule({.topic = "t", .due_at = backend.now()});
  {
    auto transaction = platform.begin();
    outbox.enqueue(transaction, {.topic = "t"});
    transaction.commit();
  }
  const auto owner = OwnerToken::generate();
  EXPECT_EQ(kind_of([&] { (void)outbox.claim({.owner = owner}); }), ErrorKind::permission);
  EXPECT_EQ(kind_of([&] { (void)outbox.find(id); }), ErrorKind::permission);
  for (const char* statement : {"select payload from ", "delete from ", "truncate "}) {
    EXPECT_EQ(kind_of([&] { platform.begin().execute(statement + backend.table("outbox")); }),
              ErrorKind::permission)
        << statement;
  }
}

TEST_F(PostgresGrants, AProducerEnqueuesIntoStreams) {
  grant(RolePurpose::producer);
  auto worker = backend.open();
  auto producer = open_as_role();
  producer.outbox().enqueue({.topic = "t", .stream = "s"});
  producer.outbox().enqueue_many(
      std::vector<EnqueueRequest>(3, {.topic = "t", .unique_key = "key", .stream = "s"}));
  producer.outbox().enqueue_many(std::vector<EnqueueRequest>(100, {.topic = "t", .stream = "s"}));
  {
    auto transaction = producer.begin();
    producer.outbox().enqueue(transaction, {.topic = "t", .stream = "s"});
    transaction.commit();
  }
  const auto claimed =
      worker.outbox().claim_streams({.owner = OwnerToken::generate(), .batch_size = 1000});
  EXPECT_EQ(claimed.size(), 103U);
  EXPECT_EQ(kind_of([&] { (void)producer.outbox().find_stream("s"); }), ErrorKind::permission);
}

TEST_F(PostgresGrants, AProducerAppendsEventsAndCannotReadThem) {
  grant(RolePurpose::producer);
  auto producer = open_as_role();
  auto& events = producer.events();
  const auto id = EventId::generate();
  const auto any = ExpectedVersion::any();
  events.append("s", ExpectedVersion::no_stream(), {{.type = "T", .data = "secret", .id = id}});
  EXPECT_FALSE(events.append("s", any, {{.type = "T", .id = id}}).stored);
  EXPECT_THROW(events.append("s", ExpectedVersion::no_stream(), {{.type = "T"}}), VersionConflict);
  const std::vector<StreamAppend> both{{.stream = "s", .events = {{.type = "T"}}},
                                       {.stream = "t", .events = {{.type = "T"}}}};
  events.append_many(both, {.publish = true});
  EXPECT_EQ(kind_of([&] { (void)events.read("s"); }), ErrorKind::permission);
  EXPECT_EQ(kind_of([&] { (void)events.read_all(); }), ErrorKind::permission);
  EXPECT_EQ(kind_of([&] { events.stamp(); }), ErrorKind::permission);
  EXPECT_EQ(kind_of([&] { events.close("s"); }), ErrorKind::permission);
  EXPECT_EQ(kind_of([&] { events.remove("s"); }), ErrorKind::permission);
}

TEST_F(PostgresGrants, AWorkerMayUseWhatLaterMigrationsCreate) {
  grant(RolePurpose::worker);
  const auto infra = backend.schema();
  backend.sql("create table " + infra + ".later (id bigint)");
  backend.sql("create sequence " + infra + ".later_seq");
  backend.sql("create function " + infra + "._later() returns bigint language sql return 1");
  backend.sql("revoke execute on function " + infra + "._later from public");
  auto platform = open_as_role();
  auto transaction = platform.begin();
  transaction.execute("insert into " + infra + ".later values (nextval('" + infra +
                      ".later_seq'))");
  transaction.execute("update " + infra + ".later set id = " + infra + "._later()");
  EXPECT_EQ(transaction.execute("delete from " + infra + ".later"), 1U);
}

TEST_F(PostgresGrants, AProducerMeetsItsOwnFinishedMessages) {
  grant(RolePurpose::producer);
  auto worker = backend.open();
  auto producer = open_as_role();
  const auto id = MessageId::generate();
  producer.outbox().enqueue({.topic = "t", .message_id = id});
  const auto owner = OwnerToken::generate();
  const auto claimed = worker.outbox().claim({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(worker.outbox().ack(owner, std::vector{claimed[0].claim}), 1U);
  producer.outbox().enqueue({.topic = "t", .message_id = id});
  EXPECT_TRUE(worker.outbox().claim({.owner = owner}).empty()) << "stored a second time";
}

TEST_F(PostgresGrants, HostileRolesAreQuoted) {
  const auto text =
      Platform::grants(backend.url(), "a\"; drop", RolePurpose::worker, backend.options());
  EXPECT_THAT(text, ::testing::HasSubstr("to \"a\"\"; drop\";"));
  EXPECT_THROW((void)Platform::grants(backend.url(), "", RolePurpose::worker),
               std::invalid_argument);
  EXPECT_EQ(Platform::grants("sqlite:x.db", "me", RolePurpose::worker), "");
}

}  // namespace
}  // namespace dovetail::testing
