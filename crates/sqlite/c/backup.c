/*
** sqlite3_backup and sqlite3_serialize where a database is Pando's. SQLite copies pages, and Pando has none, so a hidden
** connection stands in for it, whose database is a temporary file of SQLite's:
**
** 1. From Pando: the hidden file is made by sqlite3_backup_init(), as VACUUM INTO makes one. Its pages are copied.
** 2. To Pando: pages are copied into the hidden file. The step that has copied the last one copies the file's tables into
**    Pando, in one transaction that replaces all tables which SQL made. If that is busy, so is the step, and it can be
**    repeated.
**
** VACUUM INTO copies the bytes of rows and index entries, and keeps rowids, if both databases have the same definitions
** and the same file format (xferOptimization). That is always so here. No row is computed anew.
**
** Included by glue.c, whose sqlite3BtreeOpen() and sqlite3BtreeClose() call the first two functions here.
*/

/* Values of PandoHidden.eNext: what VACUUM INTO of a hidden connection opens next. */
#define PANDO_NEXT_ANY  0   /* What its name says */
#define PANDO_NEXT_FILE 1   /* A temporary file, which stays open */
#define PANDO_NEXT_GOAL 2   /* The database on Pando that is replaced */

/* What a hidden connection has. It is the connection's client data. */
struct PandoHidden {
  sqlite3 *db;      /* The hidden connection */
  sqlite3 *pTo;     /* To Pando: the program's connection, which gets the error */
  void *pGoal;      /* To Pando: a state of the database that is replaced */
  Btree *pFile;     /* The temporary file, until it is the database of db */
  u8 eNext;         /* One of the values above */
  u8 isDone;        /* Everything is in Pando */
  int iBusy;        /* Why the last step has not copied the tables */
  char *zWhy;       /* The message of the state of the goal, when it was closed */
};

static PandoHidden *pandoHiddenOf(sqlite3 *db){
  return db->pDbData ? (PandoHidden*)sqlite3_get_clientdata(db, "pando-hidden") : 0;
}

/* Opens what a hidden connection has to copy to. Returns 0 if p is not such a connection, or opens something else. */
static int pandoOpenHidden(PandoHidden *p, sqlite3_vfs *pVfs, Btree **ppBtree, int flags, int vfsFlags, int *pRc){
  u8 eNext = p ? p->eNext : PANDO_NEXT_ANY;
  void *pState = 0;
  if( eNext==PANDO_NEXT_ANY ) return 0;
  p->eNext = PANDO_NEXT_ANY;
  *pRc = SQLITE_OK;
  if( eNext==PANDO_NEXT_GOAL ){
    pState = pando_bt_again(p->pGoal, 1, pRc);
    if( *pRc!=SQLITE_OK ) return 1;
  }
  *pRc = stockBtreeOpen(pVfs, pState ? ":memory:" : "", p->db, ppBtree, flags, vfsFlags);
  if( *pRc!=SQLITE_OK ){
    if( pState ) pando_bt_close(pState);
  }else if( pState ){
    pandoTag(*ppBtree, pState);
  }else{
    p->pFile = *ppBtree;
  }
  return 1;
}
/*
** Is called where VACUUM INTO closes what it has copied to. Returns whether it stays open. Otherwise notes what its state
** last had to say.
*/
static int pandoIsKept(Btree *pBt, void *pState){
  PandoHidden *p = pandoHiddenOf(pBt->db);
  if( p && pState ){
    const char *zWhy = pando_bt_explain(pState, 0);
    if( zWhy ){
      sqlite3_free(p->zWhy);
      p->zWhy = sqlite3_mprintf("%s", zWhy);
    }
  }
  return p && p->pFile==pBt;
}

static void pandoFreeHidden(void *pArg){
  PandoHidden *p = pArg;
  if( p->pGoal ) pando_bt_close(p->pGoal);
  sqlite3_free(p->zWhy);
  sqlite3_free(p);
}
/*
** Returns a new hidden connection. Its database is in memory, or a temporary file if the name is empty. On failure returns
** NULL and sets *pRc.
*/
static PandoHidden *pandoHide(const char *zName, int *pRc){
  PandoHidden *p = sqlite3MallocZero(sizeof(*p));
  sqlite3 *db;
  if( p==0 ){
    *pRc = SQLITE_NOMEM;
    return 0;
  }
  *pRc = sqlite3_open_v2(zName, &p->db, SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE, 0);
  db = p->db;
  if( *pRc!=SQLITE_OK ){
    sqlite3_free(p);
  }else{
    /* If it fails, it has called the destructor. */
    *pRc = sqlite3_set_clientdata(db, "pando-hidden", p, pandoFreeHidden);
  }
  if( *pRc!=SQLITE_OK ){
    sqlite3_close(db);
    return 0;
  }
  /* An automatic extension may have set one. */
  sqlite3_set_authorizer(db, 0, 0);
  return p;
}

/* The order of a collation that a hidden connection does not know. It is in columns alone, where nothing is compared. */
static int pandoNoOrder(void *pArg, int nA, const void *pA, int nB, const void *pB){
  UNUSED_PARAMETER(pArg);
  UNUSED_PARAMETER2(pA, pB);
  return nA-nB;
}
static void pandoNeedsCollation(void *pArg, sqlite3 *db, int eEnc, const char *zName){
  UNUSED_PARAMETER(pArg);
  sqlite3_create_collation_v2(db, zName, eEnc, 0, pandoNoOrder, 0);
}
static void pandoNotCalled(sqlite3_context *pCtx, int nArg, sqlite3_value **apArg){
  UNUSED_PARAMETER2(nArg, apArg);
  sqlite3_result_error(pCtx, "a backup cannot call a function of the program", -1);
}
/*
** Defines what definitions of tables and indexes can need: SQLite refuses one whose functions and collations are not
** there. Nothing calls them.
*/
static int pandoLend(sqlite3 *db, sqlite3 *pFrom){
  HashElem *k;
  int rc = sqlite3_collation_needed(db, 0, pandoNeedsCollation);
  for(k=sqliteHashFirst(&pFrom->aFunc); k && rc==SQLITE_OK; k=sqliteHashNext(k)){
    FuncDef *pDef;
    for(pDef=sqliteHashData(k); pDef && rc==SQLITE_OK; pDef=pDef->pNext){
      /* Aggregates are in no definition of a table or an index. */
      if( pDef->xSFunc==0 || pDef->xFinalize ) continue;
      rc = sqlite3_create_function_v2(db, pDef->zName, pDef->nArg,
          (int)(pDef->funcFlags & (SQLITE_FUNC_ENCMASK|SQLITE_DETERMINISTIC)), 0, pandoNotCalled, 0, 0, 0);
    }
  }
  return rc;
}

/* Lets what is copied to get the file format of the hidden connection's database. */
static int pandoKeepFormat(sqlite3 *db){
  Btree *pBt = db->aDb[0].pBt;
  u32 iFormat = 0;
  int rc = sqlite3BtreeBeginTrans(pBt, 0, 0);
  if( rc!=SQLITE_OK ) return rc;
  sqlite3BtreeGetMeta(pBt, BTREE_FILE_FORMAT, &iFormat);
  rc = sqlite3BtreeCommit(pBt);
  db->flags &= ~(u64)SQLITE_LegacyFileFmt;
  if( iFormat>0 && iFormat<SQLITE_MAX_FILE_FORMAT ) db->flags |= SQLITE_LegacyFileFmt;
  return rc;
}
/* Copies the tables of a hidden connection's database into what eNext says. On failure *pzError can be a message. */
static int pandoCopyHidden(PandoHidden *p, u8 eNext, char **pzError){
  sqlite3 *db = p->db;
  sqlite3_value *pName = sqlite3ValueNew(db);
  int rc;
  if( pName==0 ) return SQLITE_NOMEM;
  sqlite3_free(p->zWhy);
  p->zWhy = 0;
  rc = pandoKeepFormat(db);
  if( rc==SQLITE_OK ){
    sqlite3ValueSetStr(pName, -1, "hidden", SQLITE_UTF8, SQLITE_STATIC);
    p->eNext = eNext;
    rc = sqlite3RunVacuum(pzError, db, 0, pName);
    p->eNext = PANDO_NEXT_ANY;
  }
  sqlite3ValueFree(pName);
  if( rc!=SQLITE_OK && *pzError==0 && p->zWhy ) *pzError = sqlite3DbStrDup(db, p->zWhy);
  return rc;
}

/* Notes a failure where the program looks for it. */
static void pandoFailed(sqlite3 *pTo, int rc, const char *zError){
  sqlite3_mutex_enter(pTo->mutex);
  sqlite3ErrorWithMsg(pTo, rc, "%s", zError ? zError : sqlite3ErrStr(rc));
  sqlite3_mutex_leave(pTo->mutex);
}

/*
** Returns a hidden connection whose database is a copy of one on Pando, as it is now. On failure returns NULL and notes
** why at pTo.
*/
static PandoHidden *pandoCopyOf(void *pFrom, sqlite3 *pProgram, sqlite3 *pTo){
  PandoHidden *p;
  char *zError = 0;
  void *pState;
  int rc;
  if( pando_bt_txn_state(pFrom)==SQLITE_TXN_WRITE ){
    pandoFailed(pTo, SQLITE_BUSY, "the transaction of the source has written: commit it first");
    return 0;
  }
  p = pandoHide(":memory:", &rc);
  if( p==0 ){
    pandoFailed(pTo, rc, 0);
    return 0;
  }
  rc = pandoLend(p->db, pProgram);
  sqlite3_mutex_enter(p->db->mutex);
  pState = rc==SQLITE_OK ? pando_bt_again(pFrom, 0, &rc) : 0;
  if( pState ){
    pandoTag(p->db->aDb[0].pBt, pState);
    sqlite3ResetAllSchemasOfConnection(p->db);
    rc = pandoCopyHidden(p, PANDO_NEXT_FILE, &zError);
  }
  if( rc==SQLITE_OK ){
    /* The file takes the place of Pando. */
    Btree *pFile = p->pFile;
    p->pFile = 0;
    sqlite3BtreeClose(p->db->aDb[0].pBt);
    p->db->aDb[0].pBt = pFile;
    p->db->aDb[0].pSchema = sqlite3SchemaGet(p->db, pFile);
    if( p->db->aDb[0].pSchema==0 ) rc = SQLITE_NOMEM;
  }else if( p->pFile ){
    stockBtreeClose(p->pFile);
    p->pFile = 0;
  }
  if( rc!=SQLITE_OK ) pandoFailed(pTo, rc, zError);
  sqlite3DbFree(p->db, zError);
  sqlite3_mutex_leave(p->db->mutex);
  if( rc!=SQLITE_OK ){
    sqlite3_close(p->db);
    p = 0;
  }
  return p;
}

/* Returns the state of a connection's database, or NULL if there is no such database or it is not on Pando. */
static void *pandoNamed(sqlite3 *db, const char *zDb){
  int i = sqlite3FindDbName(db, zDb);
  return i>=0 && db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
}

/* Returns whether a database can be replaced, or notes why not. */
static int pandoCanReplace(sqlite3 *db, const char *zDb){
  int i = sqlite3FindDbName(db, zDb);
  Btree *pBt = i>=0 ? db->aDb[i].pBt : 0;
  if( i<0 ){
    sqlite3ErrorWithMsg(db, SQLITE_ERROR, "unknown database %s", zDb);
  }else if( pBt && sqlite3BtreeTxnState(pBt)!=SQLITE_TXN_NONE ){
    sqlite3ErrorWithMsg(db, SQLITE_ERROR, "destination database is in use");
  }else if( pBt && pandoOf(pBt) && pando_bt_is_read_only(pandoOf(pBt)) ){
    sqlite3ErrorWithMsg(db, SQLITE_READONLY, "attempt to write a readonly database");
  }else{
    return 1;
  }
  return 0;
}

/* Returns a hidden connection to which pages are copied that are for a database on Pando. On failure notes why at pTo. */
static PandoHidden *pandoFileFor(void *pGoal, sqlite3 *pTo, sqlite3 *pFrom){
  int rc;
  PandoHidden *p = pandoHide("", &rc);
  if( p ){
    p->pTo = pTo;
    rc = pandoLend(p->db, pTo);
    if( rc==SQLITE_OK ) rc = pandoLend(p->db, pFrom);
    if( rc==SQLITE_OK ) p->pGoal = pando_bt_again(pGoal, 0, &rc);
  }
  if( rc!=SQLITE_OK ){
    pandoFailed(pTo, rc, 0);
    if( p ) sqlite3_close(p->db);
    p = 0;
  }
  return p;
}

SQLITE_API sqlite3_backup *sqlite3_backup_init(sqlite3 *pTo, const char *zTo, sqlite3 *pFrom, const char *zFrom){
  PandoHidden *pSource = 0, *pDest = 0;
  sqlite3_backup *b = 0;
  void *pGoal, *pState;
  sqlite3_mutex_enter(pFrom->mutex);
  sqlite3_mutex_enter(pTo->mutex);
  pGoal = pTo!=pFrom ? pandoNamed(pTo, zTo) : 0;
  pState = pTo!=pFrom ? pandoNamed(pFrom, zFrom) : 0;
  if( pGoal==0 && pState==0 ){
    b = pando_stock_sqlite3_backup_init(pTo, zTo, pFrom, zFrom);
  }else if( pandoCanReplace(pTo, zTo) ){
    if( pGoal ) pDest = pandoFileFor(pGoal, pTo, pFrom);
    if( pState && (pDest || !pGoal) ) pSource = pandoCopyOf(pState, pFrom, pTo);
    if( (pDest || !pGoal) && (pSource || !pState) ){
      b = pando_stock_sqlite3_backup_init(pDest ? pDest->db : pTo, pDest ? "main" : zTo,
                                          pSource ? pSource->db : pFrom, pSource ? "main" : zFrom);
      if( b==0 && pDest ) pandoFailed(pTo, sqlite3_errcode(pDest->db), sqlite3_errmsg(pDest->db));
    }
  }
  sqlite3_mutex_leave(pTo->mutex);
  sqlite3_mutex_leave(pFrom->mutex);
  if( b==0 && pDest ) sqlite3_close(pDest->db);
  if( b==0 && pSource ) sqlite3_close(pSource->db);
  return b;
}

/* Copies the tables into Pando. It waits for other writers as the program's connection does. */
static int pandoReplace(PandoHidden *p, char **pzError){
  int rc;
  sqlite3_mutex_enter(p->db->mutex);
  if( p->pTo->busyTimeout>0 ){
    sqlite3_busy_timeout(p->db, p->pTo->busyTimeout);
  }else{
    sqlite3_busy_handler(p->db, p->pTo->busyHandler.xBusyHandler, p->pTo->busyHandler.pBusyArg);
  }
  rc = pandoCopyHidden(p, PANDO_NEXT_GOAL, pzError);
  sqlite3_mutex_leave(p->db->mutex);
  return (rc & 0xff)==SQLITE_BUSY ? SQLITE_BUSY : rc;
}

/*
** Removes everything that SQL made in a database, as the restore of an empty file does. Is called by VACUUM with
** SQLITE_DBCONFIG_RESET_DATABASE. Other connections notice by the schema cookie, and so does this one.
*/
static int pandoReset(void *pState, sqlite3 *db, char **pzError){
  int rc;
  char *zError = 0;
  PandoHidden *p = pandoHide("", &rc);
  if( p==0 ) return rc;
  p->pTo = db;
  p->pGoal = pando_bt_again(pState, 0, &rc);
  if( p->pGoal ) rc = pandoReplace(p, &zError);
  if( zError ) sqlite3SetString(pzError, db, zError);
  sqlite3DbFree(p->db, zError);
  sqlite3_close(p->db);
  if( rc==SQLITE_OK ) sqlite3ResetAllSchemasOfConnection(db);
  return rc;
}

SQLITE_API int sqlite3_backup_step(sqlite3_backup *b, int nPage){
  PandoHidden *p = pandoHiddenOf(b->pDestDb);
  char *zError = 0;
  int hasFailed = b->rc!=SQLITE_DONE && isFatalError(b->rc);
  int rc = pando_stock_sqlite3_backup_step(b, nPage);
  if( p==0 || p->isDone || hasFailed ) return rc;
  if( rc==SQLITE_DONE ){
    rc = pandoReplace(p, &zError);
    p->iBusy = rc==SQLITE_BUSY ? rc : SQLITE_OK;
    p->isDone = rc==SQLITE_OK;
    if( rc==SQLITE_OK ) rc = SQLITE_DONE;
    /* Stock steps do not go on after DONE, which stays for the next attempt. */
    else if( rc!=SQLITE_BUSY ) b->rc = rc;
  }
  if( rc!=SQLITE_OK && rc!=SQLITE_DONE ) pandoFailed(p->pTo, rc, zError);
  sqlite3DbFree(p->db, zError);
  return rc;
}

SQLITE_API int sqlite3_backup_finish(sqlite3_backup *b){
  PandoHidden *pSource = b ? pandoHiddenOf(b->pSrcDb) : 0;
  PandoHidden *pDest = b ? pandoHiddenOf(b->pDestDb) : 0;
  int rc = pando_stock_sqlite3_backup_finish(b);
  if( pDest ){
    if( rc==SQLITE_OK ) rc = pDest->iBusy;
    /* The message of a failure stays. */
    if( rc==SQLITE_OK || sqlite3_errcode(pDest->pTo)!=rc ) pandoFailed(pDest->pTo, rc, 0);
    sqlite3_close(pDest->db);
  }
  if( pSource ) sqlite3_close(pSource->db);
  return rc;
}

SQLITE_API unsigned char *sqlite3_serialize(sqlite3 *db, const char *zSchema, sqlite3_int64 *pnByte, unsigned int mFlags){
  unsigned char *pOut = 0;
  void *pState;
  sqlite3_mutex_enter(db->mutex);
  pState = pandoNamed(db, zSchema ? zSchema : "main");
  if( pState==0 ){
    pOut = pando_stock_sqlite3_serialize(db, zSchema, pnByte, mFlags);
  }else{
    PandoHidden *p = 0;
    if( pnByte ) *pnByte = -1;
    /* There is never a contiguous copy in memory that could be returned as it is. */
    if( (mFlags & SQLITE_SERIALIZE_NOCOPY)==0 ) p = pandoCopyOf(pState, db, db);
    if( p ){
      pOut = pando_stock_sqlite3_serialize(p->db, "main", pnByte, mFlags);
      if( pOut==0 ) pandoFailed(db, SQLITE_NOMEM, 0);
      sqlite3_close(p->db);
    }
  }
  sqlite3_mutex_leave(db->mutex);
  return pOut;
}
