/*
** The functions of SQLite's private B-tree interface that Pando's trees take part in.
**
** This file is compiled inside of SQLite's one-file source, directly after btree.c and backup.c, whose functions are called
** stockBtree... there (see build.rs). Each function here looks at its handle and calls either the stock function
** or one of Rust (pando_bt_...).
**
** 1. A Btree on Pando is a stock Btree of ":memory:" that stays empty, its shadow. What the upper layers ask about
**    files, pages, caches and journals, they ask the shadow, and everything that is not overridden here is safe to
**    call. It is marked in its field `lock`, which is used only for Btrees with a shared cache, and the shadow has
**    none: lock.eLock is PANDO_TAG, a value that is no lock, and lock.pNext points to the state in Rust.
** 2. A cursor is a stock BtCursor and, after it in the same allocation, a PandoCursor and the part that only Rust
**    knows. SQLite allocates what sqlite3BtreeCursorSize() returns and clears it with sqlite3BtreeCursorZero(), and both
**    are here. An open cursor stays where it is. eKind 0 is a stock cursor.
** 3. Rows are read in batches, into memory that belongs to the cursor. What is called for each row (Next, Payload,
**    IntegerKey) is answered from the batch without a call of Rust. A batch is fresh while iStamp is the version of
**    its tree, which changes with each write of the connection.
** 4. The state and the cursors are used only by the thread that uses the connection, as the stock ones are.
*/

#define PANDO_TAG 0x50

/* BUSY_FOR_NOW in src/failure.rs: what excludes this ends by itself. */
#define PANDO_BUSY_FOR_NOW (SQLITE_BUSY | (255<<8))

/* One row of a batch. Rust has the same layout. */
typedef struct PandoRow PandoRow;
struct PandoRow {
  i64 iKey;           /* The rowid. Unused for indexes. */
  const u8 *aRecord;  /* The record */
  u32 nByte;          /* The record's length */
  u32 nHere;          /* How many of its bytes are there */
};

/* Values of PandoCursor.eState */
#define PANDO_EOF   0   /* Before the first or after the last entry */
#define PANDO_VALID 1   /* On aRow[iRow] */
#define PANDO_SAVED 2   /* On an entry whose key Rust has saved */
#define PANDO_GAP   3   /* Where a deleted entry was */
#define PANDO_MISS  4   /* On the last entry before a saved key, not read yet */
#define PANDO_FAULT 5   /* Every use returns iFault */

/* Values of PandoCursor.eCounter: what a cursor has to do with sqlite_sequence */
#define PANDO_COUNTER_NONE 0   /* It is on another tree */
#define PANDO_COUNTER_SQL  1   /* A statement names sqlite_sequence */
#define PANDO_COUNTER_OWN  2   /* It is that of AUTOINCREMENT itself */

/* The part of a cursor that C and Rust share. Rust has the same layout. */
typedef struct PandoCursor PandoCursor;
struct PandoCursor {
  u8 eKind;               /* 0: stock, 1: rowids, 2: index */
  u8 eState;              /* One of the values above */
  u8 isWrite;
  u8 isBackward;          /* aRow is in descending order */
  u8 isAtEnd;             /* Nothing comes after the batch */
  u8 eCounter;            /* One of the values below */
  int iFault;
  u32 iRow;
  u32 nRow;
  const PandoRow *aRow;
  u64 iStamp;             /* The tree's version when the batch was read */
  const u64 *pVersion;    /* The tree's version */
  void *pOwn;             /* The part that only Rust knows, after this one */
  u8 *pRow;               /* A row for the next insert with BTREE_PREFORMAT */
  i64 nRowByte;
  i64 iRowKey;
  i64 iOffset;            /* What BtreeOffset() has returned last */
};

/* A value of a key that is sought. Rust has the same layout. */
typedef struct PandoValue PandoValue;
struct PandoValue {
  int eType;              /* SQLITE_INTEGER, _FLOAT, _TEXT, _BLOB or _NULL */
  i64 i;
  double r;
  const u8 *z;
  i64 n;
};

/* The size in bytes of the part of a cursor that only Rust knows. Rust defines it. */
extern const int pando_bt_own_bytes;

/* Functions in Rust. */
extern void *pando_bt_open(const char *zToken, int *pRc);
extern int pando_bt_is_ours(const char *zPath);
extern void *pando_bt_again(void*, int isReplacing, int *pRc);
extern int pando_bt_is_new(void*);
extern void *pando_bt_open_directory(const char *zPath, int isReadOnly, int mayCreate, int *pRc);
extern const char *pando_bt_name(void*);
extern int pando_bt_has_moved(void*);
extern int pando_bt_page_bytes(void*);
extern int pando_bt_compact(void*);
extern void pando_bt_close(void*);
extern int pando_bt_begin(void*, int eKind, int isAutocommit, int nSavepoint, int isOutermost, int isSynced,
                          u32 *pCookie);
extern int pando_bt_attempt(void*, int nAttempt);
extern int pando_bt_is_repeated(void*);
extern int pando_bt_is_closed(void*);
extern int pando_bt_reads_conflict(void*);
extern int pando_bt_secure(void*, int isFinal);
extern void pando_bt_lengthen(void*);
extern void pando_bt_pause(int nAttempt);
extern u32 pando_bt_conflict_root(void*);
extern void pando_bt_name_conflict(void*, const char *zTable, const char *zIndex);
extern const char *pando_bt_explain(void*, int iCode);
extern void pando_bt_forget(void*);
extern int pando_bt_commit(void*);
extern void pando_bt_end(void*, int isReading);
extern int pando_bt_rollback(void*, int iTrip, int isWriteOnly, int isReading);
extern int pando_bt_open_savepoints(void*, int n);
extern int pando_bt_savepoint(void*, int isRollback, int iSavepoint);
extern int pando_bt_txn_state(void*);
extern void pando_bt_trip(void*, int iCode, int isWriteOnly);
extern int pando_bt_create(void*, u32*);
extern int pando_bt_drop(void*, u32);
extern int pando_bt_clear(void*, u32, int isCounters);
extern int pando_bt_meta(void*, int, u32*);
extern int pando_bt_set_meta(void*, int, u32);
extern u32 pando_bt_last_root(void*);
extern int pando_bt_is_read_only(void*);
extern int pando_bt_is_bare(void*);
extern int pando_bt_count_tree(void*, u32, i64*, int *pHasMore);
extern int pando_bt_check(void*, char*, int);
extern int pando_bt_fail(void*, int, const char*, const char*);
extern int pando_bt_cursor(void*, u32, const u8 *aOrder, int nOrder, int nKeyField, PandoCursor*);
extern void pando_bt_close_cursor(PandoCursor*);
extern int pando_bt_first(PandoCursor*, int isLast);
extern int pando_bt_step(PandoCursor*, int isBackward);
extern int pando_bt_ensure(PandoCursor*);
extern int pando_bt_restore(PandoCursor*, int*);
extern int pando_bt_new_rowid(PandoCursor*, i64 iCounter);
extern int pando_bt_seek_rowid(PandoCursor*, i64, int*);
extern int pando_bt_seek_from(PandoCursor*, i64, int*);
extern int pando_bt_seek_key(PandoCursor*, const void*, int nField, int iDefault, int isEq, int*, int*);
extern int pando_bt_expect_entry(PandoCursor*, const void*, int nField, int *pIsThere);
extern int pando_bt_incrblob(PandoCursor*);
extern int pando_bt_complete(PandoCursor*);
extern int pando_bt_put_row(PandoCursor*, i64, const void*, i64, i64 nZero);
extern int pando_bt_put_entry(PandoCursor*, const void*, i64);
extern int pando_bt_delete(PandoCursor*);
extern int pando_bt_count(PandoCursor*, i64*, int *pHasMore);
extern void pando_bt_pin(PandoCursor*, int isPinned);
extern int pando_bt_put_data(PandoCursor*, u32, u32, const void*);

/* Defined below, in main.c. */
static int nocaseCollatingFunc(void*,int,const void*,int,const void*);
static int rtrimCollFunc(void*,int,const void*,int,const void*);

static void *pandoOf(Btree *p){
  return p->lock.eLock==PANDO_TAG ? (void*)p->lock.pNext : 0;
}
static PandoCursor *pandoTail(BtCursor *pCur){
  return (PandoCursor*)((u8*)pCur + ROUND8(sizeof(BtCursor)));
}
static int pandoFresh(const PandoCursor *c){
  return c->eState==PANDO_VALID && c->iStamp==*c->pVersion;
}

/*
** Returns SQLITE_INTERRUPT if the running statement is to stop, by an interrupt or by the progress handler. It is for what
** takes long within one instruction of the virtual machine, which looks at both between instructions. No function of
** Rust's is running: the handler is the program's.
*/
static int pandoStops(sqlite3 *db){
  if( AtomicLoad(&db->u1.isInterrupted) ) return SQLITE_INTERRUPT;
#ifndef SQLITE_OMIT_PROGRESS_CALLBACK
  if( db->xProgress && db->xProgress(db->pProgressArg) ) return SQLITE_INTERRUPT;
#endif
  return SQLITE_OK;
}

/*
** Returns whether the connection of a cursor is interrupted. Rust calls it, so the progress handler is not asked: it is
** the program's, and could use the connection.
*/
int pando_is_interrupted(const PandoCursor *c){
  const BtCursor *pCur = (const BtCursor*)((const u8*)c - ROUND8(sizeof(BtCursor)));
  return AtomicLoad(&pCur->pBtree->db->u1.isInterrupted)!=0;
}

/*
** Waits for another transaction's turn to end, as the program has said. Returns whether to try again. A turn that ends by
** itself is waited for in any case: the call has returned after a part of that wait, so that the statement can be stopped.
*/
static int pandoWaits(sqlite3 *db, int *pRc){
  if( *pRc!=PANDO_BUSY_FOR_NOW ){
    if( *pRc!=SQLITE_BUSY || !sqlite3InvokeBusyHandler(&db->busyHandler) ) return 0;
  }
  if( pandoStops(db)==SQLITE_OK ) return 1;
  *pRc = SQLITE_INTERRUPT;
  return 0;
}

#ifndef PANDO_DROP_IN
/* Returns whether the statement that calls a function or a table is within a trigger's program. */
int pando_is_in_trigger(sqlite3 *db){
  Vdbe *v;
  for(v=db->pVdbe; v; v=v->pVNext){
    if( v->eVdbeState==VDBE_RUN_STATE && v->pFrame ) return 1;
  }
  return 0;
}
/*
** Forgets the columns of views, which SQLite finds out once for each view. A view over a virtual table of the program
** can have others once that table is another one. Nothing is being compiled: this is what `DROP TABLE` does.
*/
static void sqliteViewResetAll(sqlite3*, int);
void pando_forget_view_columns(sqlite3 *db){
  int i;
  sqlite3_mutex_enter(db->mutex);
  sqlite3BtreeEnterAll(db);
  for(i=0; i<db->nDb; i++){
    if( db->aDb[i].pSchema ) sqliteViewResetAll(db, i);
  }
  sqlite3BtreeLeaveAll(db);
  sqlite3_mutex_leave(db->mutex);
}
/* Returns how many statements of the connection are running. */
int pando_running(sqlite3 *db){
  return db->nVdbeActive;
}
/* Forgets an interrupt. */
void pando_forget_interrupt(sqlite3 *db){
  AtomicStore(&db->u1.isInterrupted, 0);
}
/* Returns the state of a connection's database, or NULL if there is no such database or it is not on Pando. */
void *pando_state(sqlite3 *db, int i){
  return i>=0 && i<db->nDb && db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
}
/* Initializes SQLite. It is not initialized yet, and nothing else uses it during the call. */
int pando_initialize(int isCounting){
  int rc = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, isCounting);
  return rc==SQLITE_OK ? sqlite3_initialize() : rc;
}
#endif

/* Reads field i of a key that is sought. */
void pando_bt_field(const UnpackedRecord *pRec, int i, PandoValue *pOut){
  Mem *pMem = &pRec->aMem[i];
  memset(pOut, 0, sizeof(*pOut));
  if( pMem->flags & MEM_Null ){
    pOut->eType = SQLITE_NULL;
  }else if( pMem->flags & (MEM_Int|MEM_IntReal) ){
    pOut->eType = SQLITE_INTEGER;
    pOut->i = pMem->u.i;
  }else if( pMem->flags & MEM_Real ){
    pOut->eType = SQLITE_FLOAT;
    pOut->r = pMem->u.r;
  }else{
    if( (pMem->flags & MEM_Zero) && sqlite3VdbeMemExpandBlob(pMem) ){
      pOut->eType = -1;
      return;
    }
    pOut->eType = (pMem->flags & MEM_Str) ? SQLITE_TEXT : SQLITE_BLOB;
    pOut->z = (const u8*)pMem->z;
    pOut->n = pMem->n;
  }
}

/************************************* Databases *************************************/

/* Makes a stock Btree of ":memory:" the shadow of a state. */
static void pandoTag(Btree *p, void *pState){
  assert( !p->sharable );
  p->lock.eLock = PANDO_TAG;
  p->lock.pNext = (BtLock*)pState;
}

/* Defined in backup.c. */
typedef struct PandoHidden PandoHidden;
static PandoHidden *pandoHiddenOf(sqlite3*);
static int pandoOpenHidden(PandoHidden*, sqlite3_vfs*, Btree**, int flags, int vfsFlags, int *pRc);
static int pandoIsKept(Btree*, void *pState);
static int pandoReset(void *pState, sqlite3 *db, char **pzError);

SQLITE_PRIVATE int sqlite3BtreeOpen(
  sqlite3_vfs *pVfs, const char *zFilename, sqlite3 *db, Btree **ppBtree, int flags, int vfsFlags
){
  const char *zToken = 0;
  int rc = SQLITE_OK, isDirectory = 0;
  if( pandoOpenHidden(pandoHiddenOf(db), pVfs, ppBtree, flags, vfsFlags, &rc) ) return rc;
  if( zFilename && zFilename[0] && (vfsFlags & SQLITE_OPEN_MAIN_DB)!=0 ){
#ifdef PANDO_DROP_IN
    isDirectory = (vfsFlags & SQLITE_OPEN_MEMORY)==0 && strcmp(zFilename, ":memory:")!=0
                  && strcmp(pVfs->zName, "memdb")!=0 && pando_bt_is_ours(zFilename);
#else
    zToken = sqlite3_uri_parameter(zFilename, "pando");
#endif
  }
  if( zToken==0 && !isDirectory ) return stockBtreeOpen(pVfs, zFilename, db, ppBtree, flags, vfsFlags);
  rc = stockBtreeOpen(pVfs, ":memory:", db, ppBtree, flags, vfsFlags & ~SQLITE_OPEN_SHAREDCACHE);
  if( rc==SQLITE_OK ){
    void *pState = isDirectory
      ? pando_bt_open_directory(zFilename,
                                (vfsFlags & SQLITE_OPEN_READONLY)!=0 || sqlite3_uri_boolean(zFilename, "immutable", 0),
                                (vfsFlags & SQLITE_OPEN_CREATE)!=0, &rc)
      : pando_bt_open(zToken, &rc);
    if( pState && (db->mDbFlags & DBFLAG_Vacuum)!=0 && !pando_bt_is_new(pState) ){
      /* What VACUUM INTO writes to must be empty. It looks at the length of a file, and there is none. */
      rc = SQLITE_ERROR;
      pando_bt_close(pState);
      pState = 0;
    }
    if( pState==0 ){
      stockBtreeClose(*ppBtree);
      *ppBtree = 0;
      return rc;
    }
    pandoTag(*ppBtree, pState);
  }
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeClose(Btree *p){
  void *pState = pandoOf(p);
  if( pandoIsKept(p, pState) ) return SQLITE_OK;
  if( pState ){
    p->lock.eLock = 0;
    p->lock.pNext = 0;
    pando_bt_close(pState);
  }
  return stockBtreeClose(p);
}

SQLITE_PRIVATE int sqlite3BtreeNewDb(Btree *p){
  if( !pandoOf(p) ) return stockBtreeNewDb(p);
  return SQLITE_OK;
}
SQLITE_PRIVATE const char *sqlite3BtreeGetFilename(Btree *p){
  void *pState = pandoOf(p);
  return pState ? pando_bt_name(pState) : stockBtreeGetFilename(p);
}
SQLITE_PRIVATE int sqlite3BtreeIsReadonly(Btree *p){
  void *pState = pandoOf(p);
  return pState ? pando_bt_is_read_only(pState) : stockBtreeIsReadonly(p);
}
SQLITE_PRIVATE int sqlite3BtreeSetVersion(Btree *p, int iVersion){
  return pandoOf(p) ? SQLITE_OK : stockBtreeSetVersion(p, iVersion);
}
/* Its pages have the size that they were created with. VACUUM INTO takes a refusal for a lack of memory. */
SQLITE_PRIVATE int sqlite3BtreeSetPageSize(Btree *p, int nPagesize, int nReserve, int eFix){
  return pandoOf(p) ? SQLITE_OK : stockBtreeSetPageSize(p, nPagesize, nReserve, eFix);
}
static int pandoPageSize(Btree *p){
  void *pState = pandoOf(p);
  int nByte = pState ? pando_bt_page_bytes(pState) : 0;
  return nByte ? nByte : sqlite3BtreeGetPageSize(p);
}
/*
** Sets the locking mode if it is one, and returns the one that is set. On Pando it has no effect: a process that writes a
** database always has it for itself. The shadow's lock.iTable is 1 from its opening on, and is not used.
*/
static int pandoLockingMode(Btree *p, int eMode){
  if( !pandoOf(p) ) return sqlite3PagerLockingMode(sqlite3BtreePager(p), eMode);
  if( eMode!=PAGER_LOCKINGMODE_QUERY ) p->lock.iTable = 1 + (eMode==PAGER_LOCKINGMODE_EXCLUSIVE);
  return p->lock.iTable>1 ? PAGER_LOCKINGMODE_EXCLUSIVE : PAGER_LOCKINGMODE_NORMAL;
}
/* As the stock function, once a database has pages. */
SQLITE_PRIVATE int sqlite3BtreeSetAutoVacuum(Btree *p, int eMode){
  return pandoOf(p) ? SQLITE_READONLY : stockBtreeSetAutoVacuum(p, eMode);
}
SQLITE_PRIVATE int sqlite3BtreeIncrVacuum(Btree *p){
  return pandoOf(p) ? SQLITE_DONE : stockBtreeIncrVacuum(p);
}
/* VACUUM on Pando does not come here, and the backup interface, the other caller, does not on Pando. */
SQLITE_PRIVATE int sqlite3BtreeCopyFile(Btree *pTo, Btree *pFrom){
  void *pState = pandoOf(pTo);
  if( pState==0 ) pState = pandoOf(pFrom);
  if( pState==0 ) return stockBtreeCopyFile(pTo, pFrom);
  return pando_bt_fail(pState, SQLITE_ERROR, "a file cannot be copied to Pando page by page", "");
}

/* VACUUM copies a file to another one and back. On Pando it asks for compaction. VACUUM INTO is a copy by tables. */
static int pandoRunVacuum(char **pzErrMsg, sqlite3 *db, int iDb, sqlite3_value *pOut){
  void *pState = db->aDb[iDb].pBt ? pandoOf(db->aDb[iDb].pBt) : 0;
  if( pState==0 || pOut ) return sqlite3RunVacuum(pzErrMsg, db, iDb, pOut);
  if( !db->autoCommit ){
    sqlite3SetString(pzErrMsg, db, "cannot VACUUM from within a transaction");
    return SQLITE_ERROR;
  }
  if( db->nVdbeActive>1 ){
    sqlite3SetString(pzErrMsg, db, "cannot VACUUM - SQL statements in progress");
    return SQLITE_ERROR;
  }
  /* SQLITE_DBCONFIG_RESET_DATABASE: it leaves an empty database. */
  if( db->flags & SQLITE_ResetDatabase ) return pandoReset(pState, db, pzErrMsg);
  return pando_bt_compact(pState);
}
/* Returns whether a database is Pando's, so that `dbstat` has no pages to go through, and says so. */
static int pandoHasNoPages(sqlite3_vtab *pVtab, sqlite3 *db, int iDb){
  if( db->aDb[iDb].pBt==0 || pandoOf(db->aDb[iDb].pBt)==0 ) return 0;
  sqlite3_free(pVtab->zErrMsg);
  pVtab->zErrMsg = sqlite3_mprintf("dbstat is not supported on Pando, whose tables have no pages of SQLite's");
  return 1;
}
SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p){
  void *pState = pandoOf(p);
  return pState ? pando_bt_last_root(pState) : stockBtreeLastPage(p);
}
/* Counts the entries of a tree, some at a time, so that it can be stopped. */
static int pandoCountTree(sqlite3 *db, void *pState, u32 iRoot, i64 *pnEntry){
  int rc, hasMore = 0;
  do{
    rc = pando_bt_count_tree(pState, iRoot, pnEntry, &hasMore);
    if( rc==SQLITE_OK && hasMore ) rc = pandoStops(db);
  }while( rc==SQLITE_OK && hasMore );
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeIntegrityCheck(
  sqlite3 *db, Btree *p, Pgno *aRoot, sqlite3_value *aCnt, int nRoot, int mxErr, int *pnErr, char **pzOut
){
  void *pState = pandoOf(p);
  char zFound[256];
  int i, rc = SQLITE_OK;
  /* Of one table alone, as ALTER TABLE does for a new constraint. */
  int isPartial = nRoot>0 && aRoot[0]==0;
  if( pState==0 ) return stockBtreeIntegrityCheck(db, p, aRoot, aCnt, nRoot, mxErr, pnErr, pzOut);
  /* A view, which has no root, can be the first of all; sqlite_schema is one of them. */
  for(i=0; i<nRoot; i++) if( aRoot[i]==1 ) isPartial = 0;
  *pnErr = 0;
  *pzOut = 0;
  for(i=0; i<nRoot && rc==SQLITE_OK; i++){
    i64 nEntry = 0;
    if( aRoot[i] ) rc = pandoCountTree(db, pState, aRoot[i], &nEntry);
    sqlite3MemSetArrayInt64(aCnt, i, nEntry);
  }
  if( rc==SQLITE_OK && !isPartial && pando_bt_check(pState, zFound, sizeof(zFound)) ){
    *pnErr = 1;
    *pzOut = sqlite3_mprintf("%s", zFound);
    if( *pzOut==0 ) rc = SQLITE_NOMEM;
  }
  /* SQLite looks at the code only if there is an error. */
  if( rc!=SQLITE_OK && *pnErr==0 ) *pnErr = 1;
  return rc;
}

#include "backup.c"

#ifdef PANDO_DROP_IN
#include <dlfcn.h>
#endif
/*
** The sqlite3 shell compares this with the header that it was compiled with, and ends if they differ. In its process
** the library stands before another one, which is the one of that header.
*/
static const char *pando_stock_sqlite3_sourceid(void);
SQLITE_API const char *sqlite3_sourceid(void){
#ifdef PANDO_DROP_IN
  const char *(*xNext)(void) = (const char*(*)(void))dlsym(RTLD_NEXT, "sqlite3_sourceid");
  if( xNext ) return xNext();
#endif
  return pando_stock_sqlite3_sourceid();
}

/************************************* Statements ************************************/

/*
** Returns the state of the connection's only database on Pando, or NULL. With two of them, one may have committed
** before the other met a conflict, so that a statement that is repeated would change it twice.
*/
static void *pandoOnly(sqlite3 *db){
  void *pFound = 0;
  int i;
  for(i=0; i<db->nDb; i++){
    void *pState = db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
    if( pState && pFound ) return 0;
    if( pState ) pFound = pState;
  }
  return pFound;
}

/*
** Is called where SQLite forgets an interrupt, because a statement begins and no other one is running. One that arrived
** between two attempts of a transaction is about that transaction. That of a database that was closed stays: a statement
** that only computes would not notice it otherwise, and could be endless.
*/
static void pandoForgetInterrupt(sqlite3 *db){
  int i;
  for(i=0; i<db->nDb; i++){
    void *pState = db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
    if( pState && (pando_bt_is_repeated(pState) || (i==0 && pando_bt_is_closed(pState))) ) return;
  }
  AtomicStore(&db->u1.isInterrupted, 0);
}

/*
** Runs a statement up to its next row. A statement that is a transaction by itself is repeated after a conflict if that
** cannot be noticed: it has returned no row yet, and no other statement of the connection is running, whose rows would
** be of another state. (Over a remote store, a statement that only reads can have a conflict as well.) What is repeated
** as a whole above (Connection::repeating) is not repeated here, too.
*/
SQLITE_API int sqlite3_step(sqlite3_stmt *pStmt){
  Vdbe *v = (Vdbe*)pStmt;
  sqlite3 *db = v ? v->db : 0;
  void *pState = 0;
  int rc, i, isAlone;
  if( db==0 ) return pando_stock_sqlite3_step(pStmt);
  sqlite3_mutex_enter(db->mutex);
  isAlone = v->eVdbeState!=VDBE_RUN_STATE && db->nVdbeActive==0;
  if( isAlone ){
    for(i=0; i<db->nDb; i++){
      if( db->aDb[i].pBt && pandoOf(db->aDb[i].pBt) ) pando_bt_forget(pandoOf(db->aDb[i].pBt));
    }
    if( db->autoCommit ) pState = pandoOnly(db);
    if( pState && v->readOnly && !pando_bt_reads_conflict(pState) ) pState = 0;
    if( pState && pando_bt_is_repeated(pState) ) pState = 0;
  }
  rc = pando_stock_sqlite3_step(pStmt);
  if( pState && v->rc==SQLITE_BUSY_SNAPSHOT && db->autoCommit ){
    for(i=1; pando_bt_attempt(pState, i) && v->rc==SQLITE_BUSY_SNAPSHOT && db->autoCommit; i++){
      sqlite3_reset(pStmt);
      pando_bt_pause(i);
      rc = pando_stock_sqlite3_step(pStmt);
    }
    pando_bt_attempt(pState, 0);
  }
  if( !v->readOnly && db->nVdbeExec==0 ){
    /* A statement that has not ended has returned a row, and its end depends on the program. */
    for(i=0; i<db->nDb; i++){
      if( db->aDb[i].pBt && pandoOf(db->aDb[i].pBt) ) pando_bt_lengthen(pandoOf(db->aDb[i].pBt));
    }
  }
  sqlite3_mutex_leave(db->mutex);
  return rc;
}

/*
** What programs ask a file. The shadow has none, and leaves the rest to the stock function. The log of Pando persists as
** `journal_mode` is `wal`: whatever is set.
*/
SQLITE_API int sqlite3_file_control(sqlite3 *db, const char *zDbName, int op, void *pArg){
  Btree *p;
  void *pState;
  int rc = SQLITE_OK;
  if( op!=SQLITE_FCNTL_PERSIST_WAL && op!=SQLITE_FCNTL_VFSNAME && op!=SQLITE_FCNTL_HAS_MOVED
   && op!=SQLITE_FCNTL_DATA_VERSION
  ){
    return pando_stock_sqlite3_file_control(db, zDbName, op, pArg);
  }
  sqlite3_mutex_enter(db->mutex);
  p = sqlite3DbNameToBtree(db, zDbName);
  pState = p ? pandoOf(p) : 0;
  if( pState==0 ){
    rc = pando_stock_sqlite3_file_control(db, zDbName, op, pArg);
  }else if( op==SQLITE_FCNTL_PERSIST_WAL ){
    *(int*)pArg = 1;
  }else if( op==SQLITE_FCNTL_HAS_MOVED ){
    *(int*)pArg = pando_bt_has_moved(pState);
  }else if( op==SQLITE_FCNTL_DATA_VERSION ){
    rc = pando_bt_meta(pState, BTREE_DATA_VERSION, (u32*)pArg);
  }else{
    *(char**)pArg = sqlite3_mprintf("%s", db->pVfs->zName);
  }
  sqlite3_mutex_leave(db->mutex);
  return rc;
}

/* Puts the message of our failure where SQLite has only a code's general words. */
static void pandoExplain(sqlite3 *db){
  int i;
  if( db->errCode==SQLITE_OK || db->mallocFailed ) return;
  if( strcmp(pando_stock_sqlite3_errmsg(db), sqlite3ErrStr(db->errCode))!=0 ) return;
  for(i=0; i<db->nDb; i++){
    void *pState = db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
    const char *zFailure = pState ? pando_bt_explain(pState, db->errCode) : 0;
    if( zFailure ){
      sqlite3ErrorWithMsg(db, db->errCode, "%s", zFailure);
      return;
    }
  }
}
SQLITE_API const char *sqlite3_errmsg(sqlite3 *db){
  const char *z;
  if( db==0 || !sqlite3SafetyCheckSickOrOk(db) ) return pando_stock_sqlite3_errmsg(db);
  sqlite3_mutex_enter(db->mutex);
  pandoExplain(db);
  z = pando_stock_sqlite3_errmsg(db);
  sqlite3_mutex_leave(db->mutex);
  return z;
}
SQLITE_API const void *sqlite3_errmsg16(sqlite3 *db){
  const void *z;
  if( db==0 || !sqlite3SafetyCheckSickOrOk(db) ) return pando_stock_sqlite3_errmsg16(db);
  sqlite3_mutex_enter(db->mutex);
  pandoExplain(db);
  z = pando_stock_sqlite3_errmsg16(db);
  sqlite3_mutex_leave(db->mutex);
  return z;
}

/************************************ Transactions ***********************************/

/*
** Returns whether BEGIN IMMEDIATE or EXCLUSIVE is running. It begins to write as a statement outside of BEGIN does, and
** only its program tells the two apart: it goes on to switch the automatic commit off.
*/
static int pandoIsImmediate(sqlite3 *db){
  Vdbe *v;
  int i;
  for(v=db->pVdbe; v; v=v->pVNext){
    /* Its program has a few instructions for each attached database. */
    if( v->eVdbeState!=VDBE_RUN_STATE || v->nOp>64 ) continue;
    for(i=0; i<v->nOp; i++){
      if( v->aOp[i].opcode==OP_AutoCommit && v->aOp[i].p1==0 ) return 1;
    }
  }
  return 0;
}

SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wrflag, int *pSchemaVersion){
  void *pState = pandoOf(p);
  sqlite3 *db = p->db;
  u32 iCookie = 0;
  int rc, eKind, i, isSynced;
  if( pState==0 ) return stockBtreeBeginTrans(p, wrflag, pSchemaVersion);
  for(i=0; i<db->nDb && db->aDb[i].pBt!=p; i++){}
  isSynced = i==db->nDb || db->aDb[i].safety_level>PAGER_SYNCHRONOUS_NORMAL;
  eKind = wrflag==0 ? 0 : 1 + (wrflag>1 || (db->autoCommit && pandoIsImmediate(db)));
  do{
    rc = pando_bt_begin(pState, eKind, db->autoCommit, db->nSavepoint, db->isTransactionSavepoint, isSynced,
                        pSchemaVersion ? &iCookie : 0);
  }while( pandoWaits(db, &rc) );
  if( rc==SQLITE_OK && pSchemaVersion ) *pSchemaVersion = (int)iCookie;
  return rc;
}

/* Says in SQL's names where a commit met a conflict. */
static void pandoNameConflict(Btree *p, void *pState){
  u32 iRoot = pando_bt_conflict_root(pState);
  sqlite3 *db = p->db;
  HashElem *k;
  int i;
  if( iRoot==0 ) return;
  for(i=0; i<db->nDb; i++){
    Schema *pSchema = db->aDb[i].pSchema;
    if( db->aDb[i].pBt!=p || pSchema==0 ) continue;
    for(k=sqliteHashFirst(&pSchema->tblHash); k; k=sqliteHashNext(k)){
      Table *pTab = sqliteHashData(k);
      if( pTab->tnum==iRoot && IsOrdinaryTable(pTab) ){
        pando_bt_name_conflict(pState, pTab->zName, "");
        return;
      }
    }
    for(k=sqliteHashFirst(&pSchema->idxHash); k; k=sqliteHashNext(k)){
      Index *pIdx = sqliteHashData(k);
      if( pIdx->tnum==iRoot ){
        int isRows = IsPrimaryKeyIndex(pIdx) && !HasRowid(pIdx->pTable);
        pando_bt_name_conflict(pState, pIdx->pTable->zName, isRows ? "" : pIdx->zName);
        return;
      }
    }
  }
  pando_bt_name_conflict(pState, iRoot==SCHEMA_ROOT ? LEGACY_SCHEMA_TABLE : "(dropped)", "");
}
/*
** Is called where a statement that is not read-only is about to return a row. Outside of BEGIN, all of its writes are done
** then, and the program takes the row for what is committed. So the commit must be certain: others are excluded from now
** on, and what was committed since the statement began must be no conflict. If it is one, the statement fails without a
** row, so that sqlite3_step repeats it. A statement within another one that writes ends with that one.
*/
static int pandoSecure(Vdbe *v){
  sqlite3 *db = v->db;
  int i, rc = SQLITE_OK;
  if( !db->autoCommit || db->nVdbeWrite>1 ) return SQLITE_OK;
  for(i=0; i<db->nDb && rc==SQLITE_OK; i++){
    void *pState = db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
    if( pState==0 ) continue;
    do{
      /* Virtual tables may write at the commit, as FTS does. */
      rc = pando_bt_secure(pState, db->nVTrans==0);
    }while( pandoWaits(db, &rc) );
    if( rc==SQLITE_BUSY_SNAPSHOT ) pandoNameConflict(db->aDb[i].pBt, pState);
  }
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  void *pState = pandoOf(p);
  int rc;
  if( pState==0 ) return stockBtreeCommitPhaseOne(p, zSuperJrnl);
  do{
    rc = pando_bt_commit(pState);
  }while( pandoWaits(p->db, &rc) );
  if( rc==SQLITE_BUSY_SNAPSHOT ) pandoNameConflict(p, pState);
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeCommitPhaseTwo(Btree *p, int bCleanup){
  void *pState = pandoOf(p);
  if( pState==0 ) return stockBtreeCommitPhaseTwo(p, bCleanup);
  pando_bt_end(pState, p->db->nVdbeRead>1);
  return SQLITE_OK;
}
SQLITE_PRIVATE int sqlite3BtreeCommit(Btree *p){
  int rc;
  if( !pandoOf(p) ) return stockBtreeCommit(p);
  rc = sqlite3BtreeCommitPhaseOne(p, 0);
  return rc==SQLITE_OK ? sqlite3BtreeCommitPhaseTwo(p, 0) : rc;
}
SQLITE_PRIVATE int sqlite3BtreeRollback(Btree *p, int tripCode, int writeOnly){
  void *pState = pandoOf(p);
  if( pState==0 ) return stockBtreeRollback(p, tripCode, writeOnly);
  return pando_bt_rollback(pState, tripCode, writeOnly, p->db->nVdbeRead>1);
}
/* Returns whether a connection has a database on Pando. */
static int pandoHasAny(sqlite3 *db){
  int i;
  for(i=0; i<db->nDb; i++){
    if( db->aDb[i].pBt && pandoOf(db->aDb[i].pBt) ) return 1;
  }
  return 0;
}
/*
** Is called where RELEASE of the outermost savepoint has failed to commit, and everything is rolled back. SQLite keeps
** the savepoint and its transaction, in which nothing is left: RELEASE would then succeed, as if the writes were
** committed. With files such a failure is one of the disk; here it is every conflict. So the transaction ends, as it
** does after a COMMIT that fails.
*/
static void pandoReleaseFailed(sqlite3 *db){
  if( pandoHasAny(db) ) sqlite3CloseSavepoints(db);
  else db->autoCommit = 0;
}
SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int iStatement){
  void *pState = pandoOf(p);
  return pState ? pando_bt_open_savepoints(pState, iStatement) : stockBtreeBeginStmt(p, iStatement);
}
SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){
  void *pState = p ? pandoOf(p) : 0;
  if( pState==0 ) return stockBtreeSavepoint(p, op, iSavepoint);
  return pando_bt_savepoint(pState, op==SAVEPOINT_ROLLBACK, iSavepoint);
}
SQLITE_PRIVATE int sqlite3BtreeTxnState(Btree *p){
  void *pState = p ? pandoOf(p) : 0;
  return pState ? pando_bt_txn_state(pState) : stockBtreeTxnState(p);
}
SQLITE_PRIVATE int sqlite3BtreeTripAllCursors(Btree *p, int errCode, int writeOnly){
  void *pState = p ? pandoOf(p) : 0;
  if( pState==0 ) return stockBtreeTripAllCursors(p, errCode, writeOnly);
  pando_bt_trip(pState, errCode, writeOnly);
  return SQLITE_OK;
}

/*************************************** Trees ***************************************/

SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *piTable, int flags){
  void *pState = pandoOf(p);
  return pState ? pando_bt_create(pState, piTable) : stockBtreeCreateTable(p, piTable, flags);
}
/* Returns whether a root is that of sqlite_sequence, the counters of AUTOINCREMENT. */
static int pandoIsCounters(Btree *p, Pgno iRoot){
  const Schema *pSchema = (const Schema*)p->pBt->pSchema;
  return pSchema && pSchema->pSeqTab && pSchema->pSeqTab->tnum==iRoot;
}
/*
** Opens sqlite_sequence for AUTOINCREMENT itself, whose cursors are marked by a hint that is not given to other tables.
*/
static void pandoOpenCounters(Parse *pParse, int iCur, int iDb, Table *pTab, int opcode){
  sqlite3OpenTable(pParse, iCur, iDb, pTab, opcode);
  if( pandoOf(pParse->db->aDb[iDb].pBt) ) sqlite3VdbeChangeP5(pParse->pVdbe, OPFLAG_BULKCSR);
}
SQLITE_PRIVATE void sqlite3BtreeCursorHintFlags(BtCursor *pCur, unsigned x){
  PandoCursor *c = pandoTail(pCur);
  stockBtreeCursorHintFlags(pCur, x);
  if( c->eCounter!=PANDO_COUNTER_NONE && (x & BTREE_BULKLOAD) ) c->eCounter = PANDO_COUNTER_OWN;
}
SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int iTable, int *piMoved){
  void *pState = pandoOf(p);
  if( pState==0 ) return stockBtreeDropTable(p, iTable, piMoved);
  *piMoved = 0;
  return pando_bt_drop(pState, (u32)iTable);
}
SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int iTable, i64 *pnChange){
  void *pState = pandoOf(p);
  int rc = SQLITE_OK;
  if( pState==0 ) return stockBtreeClearTable(p, iTable, pnChange);
  if( pnChange ) rc = pandoCountTree(p->db, pState, (u32)iTable, pnChange);
  return rc==SQLITE_OK ? pando_bt_clear(pState, (u32)iTable, pandoIsCounters(p, (Pgno)iTable)) : rc;
}
SQLITE_PRIVATE void sqlite3BtreeGetMeta(Btree *p, int idx, u32 *pMeta){
  void *pState = pandoOf(p);
  if( pState==0 ){
    stockBtreeGetMeta(p, idx, pMeta);
  }else if( pando_bt_meta(pState, idx, pMeta)!=SQLITE_OK ){
    /* The interface has no way to return an error, and a made-up value would be wrong data. */
    sqlite3OomFault(p->db);
  }
}
SQLITE_PRIVATE int sqlite3BtreeUpdateMeta(Btree *p, int idx, u32 iMeta){
  void *pState = pandoOf(p);
  if( pState==0 ) return stockBtreeUpdateMeta(p, idx, iMeta);
  /* 0 is the encoding of an empty database. */
  if( idx==BTREE_TEXT_ENCODING && iMeta!=SQLITE_UTF8 && iMeta!=0 ){
    return pando_bt_fail(pState, SQLITE_ERROR, "text in UTF-16 is not supported on Pando", "");
  }
  return pando_bt_set_meta(pState, idx, iMeta);
}

/************************************** Cursors **************************************/

/*
** Returns whether a root is that of a WITHOUT ROWID table's rows. Their key is the primary key, and the record's
** other fields are not a part of it, unlike those of an index.
*/
static int pandoIsRows(Btree *p, Pgno iRoot){
  sqlite3 *db = p->db;
  int i;
  for(i=0; i<db->nDb; i++){
    HashElem *k;
    if( db->aDb[i].pBt!=p || db->aDb[i].pSchema==0 ) continue;
    for(k=sqliteHashFirst(&db->aDb[i].pSchema->idxHash); k; k=sqliteHashNext(k)){
      Index *pIdx = sqliteHashData(k);
      if( pIdx->tnum==iRoot ) return IsPrimaryKeyIndex(pIdx) && !HasRowid(pIdx->pTable);
    }
  }
  return 0;
}

/* Writes the order of field i of an index, as Rust has it, or returns 0 if it is not supported. */
static int pandoOrder(const KeyInfo *pInfo, int i, u8 *pOut){
  const CollSeq *pColl = pInfo->aColl[i];
  if( pInfo->aSortFlags[i] & KEYINFO_ORDER_BIGNULL ) return 0;
  if( sqlite3IsBinary(pColl) ){
    *pOut = 0;
  }else if( pColl->xCmp==nocaseCollatingFunc ){
    *pOut = 2;
  }else if( pColl->xCmp==rtrimCollFunc ){
    *pOut = 4;
  }else{
    return 0;
  }
  if( pInfo->aSortFlags[i] & KEYINFO_ORDER_DESC ) *pOut |= 1;
  return 1;
}

SQLITE_PRIVATE int sqlite3BtreeCursor(Btree *p, Pgno iTable, int wrFlag, struct KeyInfo *pInfo, BtCursor *pCur){
  void *pState = pandoOf(p);
  PandoCursor *c = pandoTail(pCur);
  u8 aFew[32];
  u8 *aOrder = 0;
  int i, rc, nOrder = 0, nKeyField = -1;
  if( pState==0 ) return stockBtreeCursor(p, iTable, wrFlag, pInfo, pCur);
  if( iTable==SCHEMA_ROOT && pando_bt_is_bare(pState) ){
    /* The shadow's sqlite_schema is as empty as this one. */
    if( wrFlag ) return SQLITE_READONLY;
    return stockBtreeCursor(p, iTable, 0, pInfo, pCur);
  }
  if( pInfo ){
    if( pInfo->enc!=SQLITE_UTF8 ){
      return pando_bt_fail(pState, SQLITE_ERROR, "text in UTF-16 is not supported on Pando", "");
    }
    nOrder = pInfo->nAllField;
    if( pInfo->nKeyField<nOrder && pandoIsRows(p, iTable) ){
      nKeyField = pInfo->nKeyField;
    }
    aOrder = nOrder<=(int)sizeof(aFew) ? aFew : sqlite3Malloc(nOrder);
    if( aOrder==0 ) return SQLITE_NOMEM;
    for(i=0; i<nOrder; i++){
      if( !pandoOrder(pInfo, i, &aOrder[i]) ){
        if( aOrder!=aFew ) sqlite3_free(aOrder);
        return pando_bt_fail(pState, SQLITE_ERROR, "an index on Pando cannot have the collation ",
                             pInfo->aColl[i]->zName);
      }
    }
  }
  c->eKind = pInfo ? 2 : 1;
  c->isWrite = wrFlag!=0;
  c->eCounter = pandoIsCounters(p, iTable) ? PANDO_COUNTER_SQL : PANDO_COUNTER_NONE;
  c->pOwn = (u8*)c + ROUND8(sizeof(PandoCursor));
  rc = pando_bt_cursor(pState, iTable, aOrder, nOrder, nKeyField, c);
  if( aOrder!=aFew ) sqlite3_free(aOrder);
  if( rc!=SQLITE_OK ){
    c->eKind = 0;
    return rc;
  }
  /* The functions that are not overridden use these fields alone: EnterCursor, the hints. */
  pCur->pBtree = p;
  pCur->pBt = p->pBt;
  pCur->pgnoRoot = iTable;
  pCur->pKeyInfo = pInfo;
  pCur->eState = CURSOR_INVALID;
  return SQLITE_OK;
}
SQLITE_PRIVATE int sqlite3BtreeCursorSize(void){
  return ROUND8(sizeof(BtCursor)) + ROUND8(sizeof(PandoCursor)) + ROUND8(pando_bt_own_bytes);
}
SQLITE_PRIVATE void sqlite3BtreeCursorZero(BtCursor *pCur){
  stockBtreeCursorZero(pCur);
  memset(pandoTail(pCur), 0, sizeof(PandoCursor));
}
/* The stock function returns a single byte, after which there is no PandoCursor. */
SQLITE_PRIVATE BtCursor *sqlite3BtreeFakeValidCursor(void){
  static u64 aFake[(ROUND8(sizeof(BtCursor)) + ROUND8(sizeof(PandoCursor)))/8];
  assert( CURSOR_VALID==0 );
  return (BtCursor*)aFake;
}
SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  sqlite3_free(c->pRow);
  c->pRow = 0;
  if( c->eKind==0 ) return stockBtreeCloseCursor(pCur);
  pando_bt_close_cursor(c);
  c->eKind = 0;
  pCur->pBtree = 0;
  return SQLITE_OK;
}
SQLITE_PRIVATE void sqlite3BtreeClearCursor(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) stockBtreeClearCursor(pCur);
  else c->eState = PANDO_EOF;
}
SQLITE_PRIVATE int sqlite3BtreeClearTableOfCursor(BtCursor *pCur){
  if( pandoTail(pCur)->eKind==0 ) return stockBtreeClearTableOfCursor(pCur);
  return sqlite3BtreeClearTable(pCur->pBtree, pCur->pgnoRoot, 0);
}

/* While a cursor is pinned, writes to its tree through other cursors fail with SQLITE_CONSTRAINT_PINNED. */
SQLITE_PRIVATE void sqlite3BtreeCursorPin(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) stockBtreeCursorPin(pCur);
  else pando_bt_pin(c, 1);
}
SQLITE_PRIVATE void sqlite3BtreeCursorUnpin(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) stockBtreeCursorUnpin(pCur);
  else pando_bt_pin(c, 0);
}

SQLITE_PRIVATE int sqlite3BtreeCursorHasMoved(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  return c->eKind==0 ? stockBtreeCursorHasMoved(pCur) : !pandoFresh(c);
}
SQLITE_PRIVATE int sqlite3BtreeCursorRestore(BtCursor *pCur, int *pDifferentRow){
  PandoCursor *c = pandoTail(pCur);
  return c->eKind==0 ? stockBtreeCursorRestore(pCur, pDifferentRow) : pando_bt_restore(c, pDifferentRow);
}
SQLITE_PRIVATE int sqlite3BtreeCursorIsValidNN(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  return c->eKind==0 ? stockBtreeCursorIsValidNN(pCur) : c->eState==PANDO_VALID;
}
SQLITE_PRIVATE int sqlite3BtreeEof(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreeEof(pCur);
  if( c->eState==PANDO_MISS && pando_bt_ensure(c)!=SQLITE_OK ){
    /* As in GetMeta: the statement must not end as if there were no more rows. */
    sqlite3OomFault(pCur->pBtree->db);
  }
  return c->eState!=PANDO_VALID;
}

SQLITE_PRIVATE int sqlite3BtreeFirst(BtCursor *pCur, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  int rc;
  if( c->eKind==0 ) return stockBtreeFirst(pCur, pRes);
  rc = pando_bt_first(c, 0);
  *pRes = c->eState!=PANDO_VALID;
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  if( pandoTail(pCur)->eKind==0 ) return stockBtreeIsEmpty(pCur, pRes);
  return sqlite3BtreeFirst(pCur, pRes);
}
SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *pCur, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  int rc;
  if( c->eKind==0 ) return stockBtreeLast(pCur, pRes);
  rc = pando_bt_first(c, 1);
  *pRes = c->eState!=PANDO_VALID;
  return rc;
}
/*
** Is called in place of BtreeCursorIsValidNN() where an entry is to be put at the end of a tree. Ours are put by their
** keys, wherever the cursor is.
*/
static int pandoBtreeFindsEnd(BtCursor *pCur){
  return pandoTail(pCur)->eKind!=0 || stockBtreeCursorIsValidNN(pCur);
}
/*
** Returns the counter of AUTOINCREMENT that a program has in a register of its outermost frame, or the smallest integer if
** the table has none (0).
*/
static i64 pandoCounter(Vdbe *p, int iReg){
  Mem *aMem = p->aMem;
  VdbeFrame *pFrame;
  if( iReg==0 ) return SMALLEST_INT64;
  for(pFrame=p->pFrame; pFrame; pFrame=pFrame->pParent) aMem = pFrame->aMem;
  return sqlite3VdbeIntValue(&aMem[iReg]);
}
/*
** Is called in place of BtreeLast() where a new row's rowid is chosen: the one after that of the entry on which this
** leaves the cursor. It is larger than the table's counter.
*/
static int pandoBtreeNewRowid(i64 iCounter, BtCursor *pCur, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreeLast(pCur, pRes);
  *pRes = 0;
  return pando_bt_new_rowid(c, iCounter);
}
SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreeNext(pCur, flags);
  if( pandoFresh(c) ){
    if( c->isBackward ){
      if( c->iRow>0 ){ c->iRow--; return SQLITE_OK; }
    }else if( c->iRow+1<c->nRow ){
      c->iRow++;
      return SQLITE_OK;
    }
  }
  return pando_bt_step(c, 0);
}
SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreePrevious(pCur, flags);
  if( pandoFresh(c) ){
    if( !c->isBackward ){
      if( c->iRow>0 ){ c->iRow--; return SQLITE_OK; }
    }else if( c->iRow+1<c->nRow ){
      c->iRow++;
      return SQLITE_OK;
    }
  }
  return pando_bt_step(c, 1);
}
SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int bias, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreeTableMoveto(pCur, intKey, bias, pRes);
  /* A join often seeks the row that it is on, or the next one. */
  if( pandoFresh(c) && !c->isBackward ){
    u32 iRow = c->iRow;
    const PandoRow *pRow = &c->aRow[iRow];
    if( pRow->iKey!=intKey && iRow+1<c->nRow ){ iRow++; pRow++; }
    if( pRow->iKey==intKey ){
      c->iRow = iRow;
      *pRes = 0;
      return SQLITE_OK;
    }
  }
  return pando_bt_seek_rowid(c, intKey, pRes);
}
/* Is called in place of BtreeTableMoveto() for the beginning of a range: the rows from there on are read next. */
static int pandoBtreeSeek(BtCursor *pCur, i64 intKey, int isForward, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind!=0 && isForward ) return pando_bt_seek_from(c, intKey, pRes);
  return sqlite3BtreeTableMoveto(pCur, intKey, 0, pRes);
}
SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pKey, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  int rc, isSeen = 0;
  if( c->eKind==0 ) return stockBtreeIndexMoveto(pCur, pKey, pRes);
  pKey->errCode = 0;
  rc = pando_bt_seek_key(c, pKey, pKey->nField, pKey->default_rc, (pCur->hints & BTREE_SEEK_EQ)!=0, pRes,
                         &isSeen);
  if( isSeen ) pKey->eqSeen = 1;
  return rc;
}
/*
** Is called in place of BtreeIndexMoveto() where the entry of a row is removed from an index: the entry is taken to be
** there, and is not read. If the index has an expression, SQLite may compute another value than it did for the entry,
** and looks for it.
*/
static int pandoBtreeOldEntry(BtCursor *pCur, const Index *pIdx, UnpackedRecord *pKey, int *pRes){
  PandoCursor *c = pandoTail(pCur);
  int rc, isThere = 0;
  if( c->eKind==0 || pIdx->bHasExpr ) return sqlite3BtreeIndexMoveto(pCur, pKey, pRes);
  rc = pando_bt_expect_entry(c, pKey, pKey->nField, &isThere);
  if( rc!=SQLITE_OK || !isThere ) return rc ? rc : sqlite3BtreeIndexMoveto(pCur, pKey, pRes);
  *pRes = 0;
  return SQLITE_OK;
}

/**************************************** Rows ***************************************/

/* What stands for a row that does not exist or could not be read. */
static const PandoRow pandoNoRow = { 0, (const u8*)"", 0, 0 };

/* Does what pandoRow() does, for a cursor that may have to look for its row. */
static SQLITE_NOINLINE const PandoRow *pandoEnsuredRow(PandoCursor *c){
  if( pando_bt_ensure(c)!=SQLITE_OK || c->eState!=PANDO_VALID ) return &pandoNoRow;
  return &c->aRow[c->iRow];
}
/* Returns the current row, or pandoNoRow. */
static const PandoRow *pandoRow(PandoCursor *c){
  return c->eState==PANDO_VALID ? &c->aRow[c->iRow] : pandoEnsuredRow(c);
}
SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  const PandoRow *pRow;
  if( c->eKind==0 ) return stockBtreeIntegerKey(pCur);
  pRow = pandoRow(c);
  return pRow->iKey;
}
SQLITE_PRIVATE u32 sqlite3BtreePayloadSize(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  const PandoRow *pRow;
  if( c->eKind==0 ) return stockBtreePayloadSize(pCur);
  pRow = pandoRow(c);
  return pRow->nByte;
}
SQLITE_PRIVATE const void *sqlite3BtreePayloadFetch(BtCursor *pCur, u32 *pAmt){
  PandoCursor *c = pandoTail(pCur);
  const PandoRow *pRow;
  if( c->eKind==0 ) return stockBtreePayloadFetch(pCur, pAmt);
  pRow = pandoRow(c);
  *pAmt = pRow->nHere;
  return pRow->aRecord;
}
/* Is called in place of BtreePayloadSize() and BtreePayloadFetch(), where the first column of a row is read. */
static const u8 *pandoBtreeRecord(BtCursor *pCur, u32 *pnByte, u32 *pAmt){
  PandoCursor *c = pandoTail(pCur);
  const PandoRow *pRow;
  if( c->eKind==0 ){
    *pnByte = stockBtreePayloadSize(pCur);
    return (const u8*)stockBtreePayloadFetch(pCur, pAmt);
  }
  pRow = pandoRow(c);
  *pnByte = pRow->nByte;
  *pAmt = pRow->nHere;
  return pRow->aRecord;
}
SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  PandoCursor *c = pandoTail(pCur);
  const PandoRow *pRow;
  if( c->eKind==0 ) return stockBtreePayload(pCur, offset, amt, pBuf);
  pRow = pandoRow(c);
  if( pRow==&pandoNoRow || (u64)offset+amt>pRow->nByte ) return SQLITE_CORRUPT_BKPT;
  if( (u64)offset+amt>pRow->nHere ){
    int rc = pando_bt_complete(c);
    if( rc!=SQLITE_OK ) return rc;
    pRow = &c->aRow[c->iRow];
    if( (u64)offset+amt>pRow->nHere ) return SQLITE_CORRUPT_BKPT;
  }
  memcpy(pBuf, pRow->aRecord + offset, amt);
  return SQLITE_OK;
}
SQLITE_PRIVATE sqlite3_int64 sqlite3BtreeMaxRecordSize(BtCursor *pCur){
  return pandoTail(pCur)->eKind==0 ? stockBtreeMaxRecordSize(pCur) : 0x7fffffff;
}
SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreeOffset(pCur);
  /* SQLite keeps a long column until this differs. A rowid does not say which version of the row it is of. */
  return ++c->iOffset;
}
/* -1: unknown, which the stock function returns of every tree with more than one page. */
SQLITE_PRIVATE i64 sqlite3BtreeRowCountEst(BtCursor *pCur){
  return pandoTail(pCur)->eKind==0 ? stockBtreeRowCountEst(pCur) : -1;
}
SQLITE_PRIVATE int sqlite3BtreeCount(sqlite3 *db, BtCursor *pCur, i64 *pnEntry){
  PandoCursor *c = pandoTail(pCur);
  int rc, hasMore = 0;
  if( c->eKind==0 ) return stockBtreeCount(db, pCur, pnEntry);
  *pnEntry = 0;
  do{
    rc = pando_bt_count(c, pnEntry, &hasMore);
    if( rc==SQLITE_OK && hasMore ) rc = pandoStops(db);
  }while( rc==SQLITE_OK && hasMore );
  return rc;
}

/* Incremental blobs: a handle is invalid once its row was changed by something else. */
SQLITE_PRIVATE void sqlite3BtreeIncrblobCursor(BtCursor *pCur){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) stockBtreeIncrblobCursor(pCur);
  else pando_bt_incrblob(c);
}
SQLITE_PRIVATE int sqlite3BtreePayloadChecked(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreePayloadChecked(pCur, offset, amt, pBuf);
  if( !pandoFresh(c) ){
    int isDifferent = 0;
    int rc = pando_bt_restore(c, &isDifferent);
    if( rc!=SQLITE_OK ) return rc;
    if( isDifferent ) return SQLITE_ABORT;
  }
  return sqlite3BtreePayload(pCur, offset, amt, pBuf);
}
SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *pCur, u32 offset, u32 amt, void *z){
  PandoCursor *c = pandoTail(pCur);
  if( c->eKind==0 ) return stockBtreePutData(pCur, offset, amt, z);
  if( !pandoFresh(c) ){
    int isDifferent = 0;
    int rc = pando_bt_restore(c, &isDifferent);
    if( rc!=SQLITE_OK ) return rc;
    if( isDifferent ) return SQLITE_ABORT;
  }
  if( !c->isWrite ) return SQLITE_READONLY;
  return pando_bt_put_data(c, offset, amt, z);
}

/*************************************** Changes *************************************/

SQLITE_PRIVATE int sqlite3BtreeInsert(BtCursor *pCur, const BtreePayload *pX, int flags, int seekResult){
  PandoCursor *c = pandoTail(pCur);
  if( c->pRow ){
    /* A row that TransferRow() put aside, since one of the two cursors is not stock. */
    BtreePayload x;
    int rc;
    u8 *pRow = c->pRow;
    c->pRow = 0;
    if( (flags & BTREE_PREFORMAT)==0 ){
      sqlite3_free(pRow);
      return sqlite3BtreeInsert(pCur, pX, flags, seekResult);
    }
    memset(&x, 0, sizeof(x));
    if( pCur->pKeyInfo ){
      x.pKey = pRow;
      x.nKey = c->nRowByte;
    }else{
      x.nKey = c->iRowKey;
      x.pData = pRow;
      x.nData = (int)c->nRowByte;
    }
    rc = sqlite3BtreeInsert(pCur, &x, flags & ~BTREE_PREFORMAT, 0);
    sqlite3_free(pRow);
    return rc;
  }
  if( c->eKind==0 ) return stockBtreeInsert(pCur, pX, flags, seekResult);
  if( c->eKind==2 ) return pando_bt_put_entry(c, pX->pKey, pX->nKey);
  return pando_bt_put_row(c, pX->nKey, pX->pData, pX->nData, pX->nZero);
}
SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *pDest, BtCursor *pSrc, i64 iKey){
  PandoCursor *c = pandoTail(pDest);
  u32 nByte;
  int rc;
  if( c->eKind==0 && pandoTail(pSrc)->eKind==0 ) return stockBtreeTransferRow(pDest, pSrc, iKey);
  sqlite3_free(c->pRow);
  nByte = sqlite3BtreePayloadSize(pSrc);
  c->pRow = sqlite3Malloc((u64)nByte+1);
  if( c->pRow==0 ) return SQLITE_NOMEM;
  c->nRowByte = nByte;
  c->iRowKey = iKey;
  rc = sqlite3BtreePayload(pSrc, 0, nByte, c->pRow);
  if( rc!=SQLITE_OK ){
    sqlite3_free(c->pRow);
    c->pRow = 0;
  }
  return rc;
}
SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *pCur, u8 flags){
  PandoCursor *c = pandoTail(pCur);
  return c->eKind==0 ? stockBtreeDelete(pCur, flags) : pando_bt_delete(c);
}
